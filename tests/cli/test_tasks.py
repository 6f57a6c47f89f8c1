"""`regard new` offers the tasks that there are; its list stands apart so that help need not read the schema."""

from typing import get_args

from regard.cli.new import TASKS
from regard.recipe.schema import Task


def test_the_tasks_of_the_command_are_those_of_the_schema() -> None:
    assert get_args(Task) == TASKS
