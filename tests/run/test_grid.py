"""From words of the command line to the combinations of a sweep."""

import pytest

from regard.errors import RecipeError, UsageError
from regard.run.grid import Combination, parse_grid, split_values


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1", ["1"]),
        ("", [""]),
        ("1,2", ["1", "2"]),
        (" 1 , 2 ", ["1", "2"]),
        ("[a,b]", ["[a,b]"]),
        ("[a,b],[c,d]", ["[a,b]", "[c,d]"]),
        ("{x: [1,2], y: ']'},3", ["{x: [1,2], y: ']'}", "3"]),
        ('"a,b",c', ['"a,b"', "c"]),
        ("it's,you're", ["it's", "you're"]),
        ("a[1],b", ["a[1]", "b"]),
        ("true,false,null", ["true", "false", "null"]),
    ],
)
def test_commas_separate_values_outside_of_brackets_and_quotes(text: str, values: list[str]) -> None:
    assert split_values(text) == values


def test_a_grid_is_every_combination() -> None:
    grid = parse_grid(["model.layers=1,2", "seed=7", "model.dropout=0,0.1", "data.train=[a.en,a.de]"])
    assert grid.fixed == ("seed=7", "data.train=[a.en,a.de]")
    assert [one.settings for one in grid.combinations] == [
        ("model.layers=1", "model.dropout=0"),
        ("model.layers=1", "model.dropout=0.1"),
        ("model.layers=2", "model.dropout=0"),
        ("model.layers=2", "model.dropout=0.1"),
    ]
    assert parse_grid([]).combinations == (Combination(()),)


@pytest.mark.parametrize(
    ("words", "error", "told"),
    [
        (["a=1,,2"], UsageError, "'1,,2': there is a comma without a value before or after it"),
        (["a=1,"], UsageError, "there is a comma without a value"),
        (["a=1", "a=2"], UsageError, "a=2: a is given twice; write its values together, as in a=1,2"),
        (["a=1,1"], UsageError, "a=1,1: a value is given twice"),
        (["seed=1,2"], UsageError, "seed can have one value only: seeds are numbered from seed=NUMBER on"),
        (["run=a,b"], UsageError, "run can have one value only: the folder is the same for all"),
        (["training.select=loss,BLEU"], UsageError, "values of different criteria cannot be compared"),
        (["data.valid=a,b"], UsageError, "values on different validation data cannot be compared"),
        (["a"], RecipeError, "no `=`; write a setting and its value"),
        (["a..b=1"], RecipeError, "names no setting"),
        (["a=[1,2"], RecipeError, "is not a whole list"),
    ],
)
def test_grids_that_make_no_sense(words: list[str], error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told.replace("[", r"\[")):
        parse_grid(words)


def test_folders_are_readable_and_never_those_of_others() -> None:
    assert Combination(("model.layers=1", "model.dropout=0.1")).folder == "model.layers=1,model.dropout=0.1"
    assert Combination(()).folder == ""
    names = [Combination((f"data.train={path}",)).folder for path in ("a/b", "a_b", "a b", "../b", "x" * 300)]
    assert len(set(names)) == len(names)
    assert all("/" not in name and len(name) <= 100 for name in names)
