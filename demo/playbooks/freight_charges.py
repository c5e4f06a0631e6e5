"""What parcels are billed, according to the API manual of the corpus freightline."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from demo.playbooks.playbook import Lesson, Playbook, PlaybookCase

VOLUME_WEIGHT = Lesson(
    key="volume-weight",
    patterns=(
        r"volum\w+.{0,80}(divid\w+|/|over) ?(by )?5\b",
        r"(larger|greater|heavier|maximum) of .{0,60}volum",
    ),
    symptom=r"volume weight",
    rule=(
        "Work out the volume weight in grams, length x width x height in centimetres divided by 5, and go on with the "
        "larger of it and the actual weight."
    ),
    gotcha="A light parcel in a large box is billed by its volume weight, which no field of the data holds.",
    narrow="The boxes of `{file}` are billed by volume.",
    thought="Billed is the larger of the actual weight and the volume weight, so I work out both.",
    surprise="The larger of weight and volume weight is billed, so a large box costs more than it weighs.",
)
WEIGHT_STEPS = Lesson(
    key="weight-steps",
    patterns=(
        r"round\w*( \w+){0,2} up.{0,60}(500|half a kilo|step)",
        r"(500 g|half a kilo\w*|full step)s?.{0,60}round\w* up",
    ),
    symptom=r"steps of 500",
    rule="Round the weight up to the next full 500 g; a weight that is a multiple of 500 stays as it is.",
    gotcha="Weights are billed in steps. Rounding to the nearest step, or not at all, bills too little.",
    narrow="Round the weights of `{file}` up.",
    thought="Weights are billed in steps, so I round each up to the next 500 g.",
    surprise="Billed weights are multiples of 500 g, always rounded up.",
)
MINOR_UNITS = Lesson(
    key="minor-units",
    patterns=(
        r"minor (currency )?unit",
        r"\b(cent|hundredth)s?\b.{0,60}(divide|not (in )?(crown|euro|whole)|100)",
    ),
    symptom=r"minor units",
    rule="Rates are given in minor units (hundredths): divide by 100 when an amount is asked for in the currency itself.",
    gotcha="A rate of 240 is 2.40 and not 240: the API tells all money in minor units.",
    narrow="The rates beside `{file}` are hundredths.",
    thought="The rates are in minor units, so I divide the amounts by 100.",
    surprise="Amounts a hundred times too high: the rates are in minor units.",
)


@dataclass(frozen=True, slots=True)
class Bill:
    """Parcels (parcel, weight_g, perhaps length_cm, width_cm, height_cm, service) and what each is billed."""

    file: str
    output: str
    sized: bool = False  # the data has the three lengths
    priced: bool = False  # an amount is asked for, and rates.json is in the same folder


def program(bill: Bill, handled: frozenset[str]) -> str:
    """Write a program that reads the parcels and writes one line for each, plus the notes."""
    volume = bill.sized and VOLUME_WEIGHT.key in handled
    hundredths = " / 100" if MINOR_UNITS.key in handled else ""
    return "\n".join(
        [
            "import json",
            "",
            f"parcels = [json.loads(line) for line in open({bill.file!r})]",
            *(["rates = json.load(open('rates.json'))"] if bill.priced else []),
            "total = 0",
            f"with open({bill.output!r}, 'w') as out:",
            f"    out.write('parcel,billed_g{',amount' if bill.priced else ''}\\n')",
            "    for parcel in parcels:",
            "        weight = parcel['weight_g']",
            *(
                [
                    "        volume = parcel['length_cm'] * parcel['width_cm'] * parcel['height_cm'] / 5",
                    "        weight = max(weight, int(volume))",
                ]
                if volume
                else []
            ),
            *(["        weight = -(-weight // 500) * 500"] if WEIGHT_STEPS.key in handled else []),
            "        total += weight",
            *(
                [
                    f"        amount = weight / 1000 * rates[parcel['service']]{hundredths}",
                    "        out.write(f\"{parcel['parcel']},{weight},{amount:.2f}\\n\")",
                ]
                if bill.priced
                else ["        out.write(f\"{parcel['parcel']},{weight}\\n\")"]
            ),
            "with open('notes.md', 'w') as notes:",
            "    notes.write(f'parcels read: {len(parcels)}\\ngrams billed: {total}\\n')",
            "",
        ]
    )


def _case(bill: Bill, *needs: Lesson) -> PlaybookCase:
    files = (bill.file, "rates.json") if bill.priced else (bill.file,)
    return PlaybookCase(bill.file, files, bill.output, tuple(lesson.key for lesson in needs), partial(program, bill))


PLAYBOOK = Playbook(
    slug="freight-charges",
    title="Charges for parcels",
    words=("freight", "charge", "billed"),
    when="parcels have to be billed by weight and rate",
    steps=(
        "Look at the fields of a parcel and at the list of rates, where there is one.",
        "Read one parcel per line with the json module and keep their order.",
        "Take the weight in grams as a whole number.",
        "Where an amount is asked for, multiply the weight in kilograms by the rate of its service; write two decimals.",
        "Write the number of parcels and the grams billed into the notes.",
    ),
    lessons=(VOLUME_WEIGHT, WEIGHT_STEPS, MINOR_UNITS),
    cases=(
        _case(Bill("sample_letters.jsonl", "sample_billed.csv"), WEIGHT_STEPS),
        _case(Bill("boxes.jsonl", "boxes_billed.csv", sized=True), VOLUME_WEIGHT, WEIGHT_STEPS),
        _case(Bill("letters.jsonl", "letters_billed.csv", priced=True), WEIGHT_STEPS, MINOR_UNITS),
        _case(
            Bill("pallets.jsonl", "pallets_billed.csv", sized=True, priced=True),
            VOLUME_WEIGHT,
            WEIGHT_STEPS,
            MINOR_UNITS,
        ),
    ),
)
