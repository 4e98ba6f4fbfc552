"""Foreign text cannot move the cursor, change colours or reorder what stands around it."""

from hypothesis import given
from hypothesis import strategies as st

from wavebed.printable import printable


def test_terminal_escapes_become_text() -> None:
    assert printable("a\x1b]0;title\x07b") == "a\\x1b]0;title\\x07b"


def test_plain_text_in_any_script_stays() -> None:
    assert printable("Käfer 5 Gbit/s 測定") == "Käfer 5 Gbit/s 測定"


def test_kept_characters_stay() -> None:
    assert printable("one\ntwo\r", keep="\n") == "one\ntwo\\r"


def test_lone_surrogates_can_be_encoded_afterwards() -> None:
    assert printable("\udc80").encode("utf-8") == b"\\udc80"


@given(st.text(st.characters()))
def test_no_control_character_passes(text: str) -> None:
    shown = printable(text)
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in shown)
    shown.encode("utf-8")
