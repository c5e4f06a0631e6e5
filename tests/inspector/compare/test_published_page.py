"""`/published/`: what a paper prints, and apart from rounding what in it contradicts itself."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from benchapp.papers.published_rows import PAPERS, flatten_rows, lay_out, read_errata, read_published_rows
from inspector.pages.compare.published_view import NEAR, draw_lanes, list_metrics


def test_rounding_is_not_counted_as_a_contradiction(client: Client, db: None) -> None:
    found = read_errata("skillevolbench")
    rounded = [each for each in found if each.is_rounding]
    assert 0 < len(rounded) < len(found)
    page = client.get("/published/", {"paper": "skillevolbench", "table": "Table 1"}).text
    assert f"{len(found) - len(rounded)} claims of the paper do not add up." in page
    assert f"and {len(rounded)} rounded before subtracting" in page
    wrong = page.partition('<div id="findings">')[2].partition("<details")[0]
    assert wrong.count("<tr>") == 1 + len(found) - len(rounded)
    assert "rounded before subtracting" not in wrong
    assert len(client.get("/published.json", {"paper": "skillevolbench"}).json()["findings"]) == len(found)


def test_a_row_has_one_head_so_that_numbers_show_on_a_phone(client: Client, db: None) -> None:
    page = client.get("/published/", {"paper": "skillevolbench", "table": "Table 1"}).text
    table = page.partition('<table class="rows printed">')[2].partition("</table>")[0]
    row = table.partition("<tbody>")[2].partition("</tr>")[0]
    assert row.count("<th") == 1
    assert row.index('</th><td class="num">') > 0


def test_a_model_is_a_lane_and_every_condition_a_dot_that_leads_to_its_number(client: Client, db: None) -> None:
    page = client.get("/published/", {"paper": "skillevolbench"}).text
    assert "Deployment success: 9 of 30 printed values are above no skill." in page
    chart = page.partition("printed-lanes")[2].partition("</table>")[0]
    assert chart.count('<th scope="row">') == 10
    dots = re.findall(r'<a href="#(line-\d+)"[^>]*><use[^>]*><title>([^<]+)</title>', chart)
    assert len(dots) == 40
    assert ("line-0", "No skill: 37.8 %, 34 of 90 (Table 1, NO-SKILL)") in dots
    assert all(f'<tr id="{line}">' in page for line, _ in dots)
    told = client.get("/published.json", {"paper": "skillevolbench", "metric": "LSR"}).json()
    assert (told["metric"], told["table"], len(told["rows"])) == ("LSR", "Table 1", 240)
    assert told["answer"].startswith("Acquisition success: ")


@pytest.mark.parametrize("paper", PAPERS)
def test_every_number_of_every_table_is_a_dot_and_none_covers_another(paper: str) -> None:
    numbers = list(flatten_rows(read_published_rows(paper)))
    for table in {number["table"] for number in numbers}:
        layout = lay_out([number for number in numbers if number["table"] == table])
        for metric, place in list_metrics(layout).items():
            _, lanes, _ = draw_lanes(layout, place)
            dots = [dot for lane in lanes for dot in lane.dots]
            printed = [line.cells[place] for line in layout.lines if line.cells[place]]
            assert len(dots) == sum(number["value"] is not None for number in printed if number), (table, metric)
            for lane in lanes:
                places = sorted((dot.y, dot.x) for dot in lane.dots)
                pairs = zip(places, places[1:], strict=False)
                assert all(b[1] - a[1] >= NEAR for a, b in pairs if a[0] == b[0]), (table, metric, lane.who)


def test_a_value_without_a_model_is_the_baseline_of_every_lane(client: Client, db: None) -> None:
    told = client.get("/published.json", {"paper": "skilllearnbench", "table": "Table 2", "metric": "accuracy"}).json()
    assert (
        told["answer"]
        == "Instances passed: 29 of 29 printed values are above no skill, for most the mean over all models, 10.17."
    )
    lanes = client.get("/published/", {"paper": "skilllearnbench", "table": "Table 2"}).text
    assert lanes.count('data-name="No skill">10.17<') == 1


def test_what_an_address_asks_for_in_vain_is_left_out(client: Client, db: None) -> None:
    told = client.get("/published.json", {"paper": "none", "table": "Table 99", "metric": "none"}).json()
    assert (told["paper"], told["table"], told["metric"]) == ("skillevolbench", "Table 1", "ESR")
