"""How predictions become lines of text, and what is counted on the way."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import cast

from regard.insight import links
from regard.metrics import format_pharaoh
from regard.run.prediction import Output, Prediction


@dataclass(frozen=True, slots=True)
class Form:
    """How an output is written: its text, `best` rows of line, score and text, a column of links, or JSON.

    `probable`: outputs have probabilities, which numbers have not.
    """

    best: int = 1
    align: bool = False
    jsonl: bool = False
    probable: bool = True

    def lines(self, prediction: Prediction, number: int) -> Iterator[str]:
        """The lines for the prediction of line `number`."""
        column = _links(prediction) if self.align else None
        if self.jsonl:
            yield json.dumps(self._record(prediction, number, column), ensure_ascii=False)
        elif self.best > 1:
            for one in prediction.outputs:
                yield f"{number}\t{one.score:.6f}\t{_cell(one.text)}"
            if not prediction.outputs:
                yield f"{number}\t\t"
        else:
            yield prediction.text if column is None else f"{_cell(prediction.text)}\t{column}"

    def _record(self, prediction: Prediction, number: int, column: str | None) -> dict[str, object]:
        record: dict[str, object] = {
            "line": number,
            "source": prediction.source,
            "text": prediction.text,
            "score": prediction.score if prediction.outputs else None,
        }
        if self.probable:
            record["log_probability"] = prediction.log_probability if prediction.outputs else None
        record["complete"] = not prediction.cut_output
        if prediction.outputs and prediction.outputs[0].parts:
            record["parts"] = dict(prediction.outputs[0].parts)
        if self.best > 1:
            record["nbest"] = [_told(one) for one in prediction.outputs]
        if column is not None:
            record["alignment"] = column
        if prediction.fault:
            record["fault"] = prediction.fault
        if prediction.remark:
            record["remark"] = prediction.remark
        return record


@dataclass(slots=True)
class Tally:
    """Lines that were read in part or not at all, or with something to tell, and outputs that were cut."""

    sources: int = 0
    outputs: int = 0
    faults: int = 0
    first_fault: str = ""
    unseen: int = 0
    first_unseen: str = ""
    remarks: int = 0
    first_remark: str = ""

    def add(self, place: str, prediction: Prediction) -> None:
        self.sources += bool(prediction.cut_source)
        self.outputs += prediction.cut_output
        self.faults += bool(prediction.fault)
        self.unseen += bool(prediction.unseen)
        self.remarks += bool(prediction.remark)
        if prediction.remark and not self.first_remark:
            self.first_remark = f"{place}: {prediction.remark}"
        if prediction.unseen and not self.first_unseen:
            self.first_unseen = f"{place}: {prediction.unseen[0]!r}"
        if prediction.fault and not self.first_fault:
            self.first_fault = f"{place}: {prediction.fault}"

    def include(self, later: "Tally") -> None:
        """Add what was counted for lines that come after these."""
        self.sources += later.sources
        self.outputs += later.outputs
        self.faults += later.faults
        self.first_fault = self.first_fault or later.first_fault
        self.unseen += later.unseen
        self.first_unseen = self.first_unseen or later.first_unseen
        self.remarks += later.remarks
        self.first_remark = self.first_remark or later.first_remark

    def record(self) -> dict[str, object]:
        """This as JSON has it."""
        return asdict(self)

    @staticmethod
    def from_record(record: Mapping[str, object]) -> "Tally":
        """What `record` gave."""
        numbers = {name: cast(int, record[name]) for name in ("sources", "outputs", "faults", "unseen", "remarks")}
        return Tally(
            **numbers,
            first_fault=str(record["first_fault"]),
            first_unseen=str(record["first_unseen"]),
            first_remark=str(record["first_remark"]),
        )

    def told(self, limit: int) -> Iterator[str]:
        """Sentences for people; `limit` is the recipe's `data.max_length`."""
        if self.unseen:
            yield (
                f"{self.unseen:,} line{'' if self.unseen == 1 else 's'} with an attribute that training did not have: "
                f"it was left out; the first: {self.first_unseen}"
            )
        if self.faults:
            one = self.faults == 1
            yield (
                f"{self.faults:,} line{'' if one else 's'} could not be read and {'was' if one else 'were'} answered "
                f"with a blank line; the first: {self.first_fault}"
            )
        if self.remarks:
            yield (
                f"{self.remarks:,} line{'' if self.remarks == 1 else 's'} with something to tell (--jsonl tells all of "
                f"them); the first: {self.first_remark}"
            )
        if self.sources:
            one = self.sources == 1
            yield (
                f"{self.sources:,} line{' was' if one else 's were'} longer than {limit} tokens (data.max_length) and "
                f"only {'its' if one else 'their'} beginning was read"
            )
        if self.outputs:
            one = self.outputs == 1
            yield (
                f"{self.outputs:,} output{'' if one else 's'} reached the limit of length (search.max_length, "
                f"search.max_ratio) before {'its' if one else 'their'} end"
            )


def _told(output: Output) -> dict[str, object]:
    """One of several outputs, as JSON has it."""
    record: dict[str, object] = {
        "text": output.text,
        "score": output.score,
        "log_probability": output.log_probability,
        "complete": output.complete,
    }
    return {**record, "parts": dict(output.parts)} if output.parts else record


def _cell(text: str) -> str:
    """A text as one column: a tab in it would make two."""
    return text.replace("\t", " ")


def _links(prediction: Prediction) -> str:
    return "" if prediction.alignment is None else format_pharaoh(links(prediction.alignment.weights))
