"""What may be asked of one code of a draft, one form per act. Each makes its act and says what was done."""

from __future__ import annotations

from django import forms
from django.db.models import QuerySet
from django.http import QueryDict

from benchapp.models import Code, CodebookVersion, Decision, Trial, User
from benchapp.review.codebooks import codes
from benchapp.review.codebooks.codebook_file import MAX_NAME, MAX_QUOTE, MAX_TEXT
from benchapp.review.codebooks.codes import Wording
from benchapp.review.codebooks.examples import add_example

MIN_PARTS, MAX_PARTS = 2, 6
TEXTS = {"definition": "Definition", "include": "Label it when", "exclude": "Not when, and what instead"}


def _name(label: str | None = None) -> forms.CharField:
    return forms.CharField(max_length=MAX_NAME, error_messages={"required": "Give it a name."}, label=label)


def _text(label: str, *, rows: int = 3) -> forms.CharField:
    return forms.CharField(required=False, max_length=MAX_TEXT, label=label, widget=forms.Textarea({"rows": rows}))


def _read_texts(code: Code) -> dict[str, object]:
    return {name: getattr(Wording.of(code), name) for name in ("name", *TEXTS)}


def _choose_code(codes: QuerySet[Code], label: str, nothing: str) -> forms.Field:
    """`nothing`: what it means to choose none."""
    return forms.ModelChoiceField(codes, required=False, to_field_name="public_id", empty_label=nothing, label=label)


class CodeForm(forms.Form):
    """`title`: the act on its tab. `button`: what it does."""

    title = button = about = ""

    def __init__(
        self, code: Code | None, sent: QueryDict | None = None, *, initial: dict[str, object] | None = None
    ) -> None:
        super().__init__(sent, auto_id="code_%s", initial=initial)
        self.code = code

    def apply(self, user: User) -> str:
        """What was done, in words. Raises CodebookRefused."""
        raise NotImplementedError

    def wording(self, ending: str = "") -> Wording:
        return Wording(*(self.cleaned_data[f"{name}{ending}"] for name in ("name", *TEXTS)))


class WordingForm(CodeForm):
    name = _name()
    definition = _text(TEXTS["definition"])
    include = _text(TEXTS["include"])
    exclude = _text(TEXTS["exclude"])


class AddForm(WordingForm):
    """Unlike the others it starts from a version, without a code."""

    title, button = "Add", "Add code"

    def __init__(self, version: CodebookVersion, sent: QueryDict | None = None) -> None:
        super().__init__(None, sent)
        self.version = version
        self.fields["parent"] = _choose_code(version.codes.all(), "Below", "at the top")

    def apply(self, user: User) -> str:
        self.code = codes.add(self.version, self.wording(), user, parent=self.cleaned_data["parent"])
        return f"“{self.code.name}” was added."


class EditForm(WordingForm):
    code: Code
    title, button = "Edit", "Save"
    about = "A new name keeps the labels. A new meaning asks for each label again when a queue is carried over."
    seen = forms.CharField(required=False, widget=forms.HiddenInput)

    def __init__(self, code: Code, sent: QueryDict | None = None) -> None:
        initial = {**_read_texts(code), "seen": Wording.of(code).fingerprint}
        super().__init__(code, sent, initial=initial)

    def apply(self, user: User) -> str:
        code = codes.reword(self.code, self.wording(), user, seen=self.cleaned_data["seen"])
        return f"“{code.name}” was saved."


class MoveForm(CodeForm):
    code: Code
    title, button = "Move", "Move"

    def __init__(self, code: Code, sent: QueryDict | None = None) -> None:
        super().__init__(code, sent, initial={"parent": code.parent and code.parent.public_id})
        others = code.version.codes.exclude(pk=code.pk)
        self.fields["parent"] = _choose_code(others, "Below", "at the top")
        self.fields["before"] = _choose_code(others, "Before", "last")

    def apply(self, user: User) -> str:
        parent, before = self.cleaned_data["parent"], self.cleaned_data["before"]
        codes.move(self.code, user, parent=before.parent if before and not parent else parent, before=before)
        return f"“{self.code.name}” was moved."


class SplitForm(CodeForm):
    code: Code
    title, button = "Split", "Split"
    about = "The first part keeps the place, the examples and what is below. Every label is asked for again."

    def __init__(self, code: Code, sent: QueryDict | None = None, *, parts: int = MIN_PARTS) -> None:
        super().__init__(code, sent)
        if sent is not None:
            parts = sum(f"name_{part}" in sent for part in range(1, MAX_PARTS + 1))
        self.parts = max(MIN_PARTS, min(MAX_PARTS, parts))
        for part in range(1, self.parts + 1):
            self.fields[f"name_{part}"] = _name(label=f"Part {part}: name")
            for text, label in TEXTS.items():
                self.fields[f"{text}_{part}"] = _text(label, rows=2)

    @property
    def more(self) -> int | None:
        """How many parts the form could have next."""
        return self.parts + 1 if self.parts < MAX_PARTS else None

    def apply(self, user: User) -> str:
        was = self.code.name
        made = codes.split_code(self.code, [self.wording(f"_{part}") for part in range(1, self.parts + 1)], user)
        return f"“{was}” was split into {', '.join(f'“{code.name}”' for code in made)}."


class MergeForm(WordingForm):
    code: Code
    title, button = "Merge", "Merge"
    about = "All their labels follow automatically, even where the words change."

    def __init__(self, code: Code, sent: QueryDict | None = None) -> None:
        super().__init__(code, sent, initial=_read_texts(code))
        self.fields["others"] = forms.ModelMultipleChoiceField(
            code.version.codes.exclude(pk=code.pk),
            to_field_name="public_id",
            widget=forms.CheckboxSelectMultiple,
            label="Merge with",
            error_messages={"required": "Choose at least one other code."},
        )
        self.order_fields(("others", "name", *TEXTS))

    def apply(self, user: User) -> str:
        merged = [self.code, *self.cleaned_data["others"]]
        self.code = codes.merge(merged, self.wording(), user)
        return f"{', '.join(f'“{code.name}”' for code in merged)} became “{self.code.name}”."


class RetireForm(CodeForm):
    code: Code
    title, button = "Retire", "Retire"
    about = "The draft continues without it. Codes below it move up. Its labels are asked for again."
    reason = forms.CharField(required=False, max_length=1000, label="Why", widget=forms.Textarea({"rows": 2}))

    def apply(self, user: User) -> str:
        codes.retire(self.code, user, reason=self.cleaned_data["reason"])
        return f"“{self.code.name}” was retired."


class ExampleForm(CodeForm):
    code: Code
    title, button = "Example", "Add example"
    about = (
        "A place that shows what the code means. Marks of submitted reviews can be added from the coding screen too."
    )
    trial = forms.ModelChoiceField(
        Trial.objects.filter(episode__run__experiment__deleted_at=None),
        required=False,
        to_field_name="public_id",
        widget=forms.TextInput({"autocomplete": "off"}),
        label="Trial (the id in its address)",
        error_messages={"invalid_choice": "There is no such trial."},
    )
    decision = forms.ModelChoiceField(
        Decision.objects.filter(episode__run__experiment__deleted_at=None),
        required=False,
        to_field_name="public_id",
        widget=forms.TextInput({"autocomplete": "off"}),
        label="or decision (its id)",
        error_messages={"invalid_choice": "There is no such decision."},
    )
    step = forms.IntegerField(required=False, min_value=1, max_value=2**31 - 1, label="Step")
    quote = forms.CharField(required=False, max_length=MAX_QUOTE, widget=forms.Textarea({"rows": 2}), label="Quote")
    note = forms.CharField(required=False, max_length=MAX_TEXT, widget=forms.Textarea({"rows": 2}), label="Note")
    is_counter = forms.BooleanField(required=False, label="Shows what the code does not mean")

    def apply(self, user: User) -> str:
        add_example(self.code, user, **self.cleaned_data)
        return f"An example was added to “{self.code.name}”."


ACTS: dict[str, type[CodeForm]] = {
    "edit": EditForm,
    "example": ExampleForm,
    "move": MoveForm,
    "split": SplitForm,
    "merge": MergeForm,
    "retire": RetireForm,
}
