from site_builder.doctests import fenced


def test_example_and_result_are_one_block() -> None:
    assert fenced("Twice.\n\n>>> f(1)\n[2]\n\nArgs:\n    x: One.") == (
        "Twice.\n\n```pycon\n>>> f(1)\n[2]\n```\n\nArgs:\n    x: One."
    )


def test_indented_examples_are_left_to_their_section() -> None:
    assert fenced("Examples:\n    >>> f(1)") == "Examples:\n    >>> f(1)"
