"""Text of users in one line of a terminal."""

from regard.report.markup import visible


def test_what_a_terminal_would_obey_is_replaced_and_a_tab_is_a_blank():
    assert visible("Haus\tN;DAT\x1b[2J\n\u202eß") == "Haus N;DAT\ufffd[2J\ufffd\ufffdß"
