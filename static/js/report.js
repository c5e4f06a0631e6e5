// Draws every figure of a report from the JSON beside it. The file works alone: no address is ever fetched.

const CONFIG = { displaylogo: false, displayModeBar: false, showSendToCloud: false, plotlyServerURL: "", responsive: true };
const PRINTED = 670; // px: the width of A4 between its margins
const FONT = "system-ui, sans-serif";

const plots = [...document.querySelectorAll("[data-figure]")];

async function draw(plot) {
  const { data, layout } = JSON.parse(document.getElementById(plot.dataset.figure).textContent);
  layout.font = { ...layout.font, family: FONT };
  layout.autosize = true;
  plot.replaceChildren();
  await Plotly.newPlot(plot, data, layout, CONFIG);
  plot.dataset.drawn = "yes";
}

for (const plot of plots) {
  draw(plot).catch((error) => {
    plot.textContent = `This chart could not be drawn (${error.message}); its numbers are in the table.`;
  });
}

addEventListener("beforeprint", () => plots.forEach((plot) => plot.data && Plotly.relayout(plot, { width: PRINTED })));
addEventListener("afterprint", () =>
  plots.forEach((plot) => plot.data && Plotly.relayout(plot, { width: null, autosize: true })),
);
