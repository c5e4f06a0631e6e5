"""`/published/`: what a paper prints, and apart from rounding what in it contradicts itself."""

from __future__ import annotations

from django.test import Client

from benchapp.papers.errata import read_errata


def test_rounding_is_not_counted_as_a_contradiction(client: Client, db: None) -> None:
    found = read_errata("skillevolbench")
    rounded = [each for each in found if each.is_rounding]
    assert 0 < len(rounded) < len(found)
    page = client.get("/published/", {"paper": "skillevolbench", "table": "Table 1"}).text
    assert f"{len(found) - len(rounded)} claims about them do not add up." in page
    assert f"{len(rounded)} more deltas differ in the last digit alone" in page
    wrong = page.partition('<h2 id="findings">')[2].partition("<details")[0]
    assert wrong.count("<tr>") == 1 + len(found) - len(rounded)
    assert "rounded before subtracting" not in wrong
    assert len(client.get("/published.json", {"paper": "skillevolbench"}).json()["findings"]) == len(found)


def test_a_row_has_one_head_so_that_numbers_show_on_a_phone(client: Client, db: None) -> None:
    page = client.get("/published/", {"paper": "skillevolbench", "table": "Table 1"}).text
    table = page.partition('<table class="rows printed">')[2].partition("</table>")[0]
    row = table.partition("<tbody>")[2].partition("</tr>")[0]
    assert row.count("<th") == 1
    assert row.index('</th><td class="num">') > 0
