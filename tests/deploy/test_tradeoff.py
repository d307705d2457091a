"""Memory against speed as three rows: what they say is what the programs need that their flags make."""

import json
from dataclasses import replace

import pytest

from insitu.cli import main
from insitu.cli.output import show
from insitu.deploy.choices import NAMES, checked_choices, choices_table
from insitu.deploy.manifest import manifest, read_manifest
from insitu.deploy.programs import Programs
from insitu.deploy.remembered import key
from insitu.deploy.tradeoff import with_choices
from insitu.toolchain.cache import place_of

from .test_prefer import made, model

for package in ("elftools", "ziglang", "unicorn"):
    pytest.importorskip(package)

OPTIONS = ("--classes", "4", "--scheme", "last:1", "--board", "nrf52840")
SRAM = 60_000  # less than nothing lowered needs


@pytest.fixture(scope="module")
def guessed():
    return with_choices(made("balance", SRAM)).choices


@pytest.fixture(scope="module")
def counted():
    return with_choices(made("balance", SRAM), counted=True).choices


def flags_of(choice) -> dict:
    words = choice.flags.split()
    found = dict(zip(words[::2], words[1::2]))
    return {"prefer": found.get("--prefer", "balance"), "sram": int(found["--sram"]) if "--sram" in found else None}


def test_the_flags_of_a_row_make_its_program(counted):
    assert tuple(choice.name for choice in counted) == NAMES
    for choice in counted:
        found = made(**flags_of(choice))
        assert (found.sram_bytes, found.flash_bytes) == (choice.sram_bytes, choice.flash_bytes)


def test_a_row_says_its_sram_where_another_was_asked_for(guessed):
    assert [choice.flags for choice in guessed] == [
        f"--prefer memory --sram {SRAM}", f"--sram {SRAM}", "--prefer speed --sram 262144"
    ]  # fmt: skip


def test_each_row_takes_more_memory_and_fewer_instructions_than_the_one_before(guessed, counted):
    for rows in (guessed, counted):
        small, usual, fast = rows
        assert small.sram_bytes < usual.sram_bytes < fast.sram_bytes
        steps = [choice.instructions["train_step"] for choice in rows]
        assert steps == sorted(steps, reverse=True) and len(set(steps)) == 3


def test_estimates_are_close_to_what_is_counted(guessed, counted):
    for guess, exact in zip(guessed, counted):
        assert guess.sram_bytes == pytest.approx(exact.sram_bytes, abs=256)
        assert guess.flash_bytes == pytest.approx(exact.flash_bytes, rel=0.15)
        for verb, count in exact.instructions.items():
            assert guess.instructions[verb] == pytest.approx(count, rel=0.0 if guess.chosen else 0.25)


def test_nothing_more_is_linked_for_estimates(monkeypatch):
    deployed = made("balance", SRAM)
    monkeypatch.setattr("insitu.deploy.deployment.build_firmware", None)
    assert [(c.linked, c.counted, c.chosen) for c in with_choices(deployed).choices] == [
        (False, False, False), (True, True, True), (False, False, False),
    ]  # fmt: skip


def test_estimates_are_marked(guessed, counted):
    lines = choices_table([choice.to_json() for choice in guessed]).splitlines()
    assert lines[3].startswith("default (this one)") and f"--sram {SRAM}" in lines[3]
    assert [line.count("~") for line in lines[2:]] == [4, 0, 4]  # the linked one is small: it was counted
    assert "~" not in choices_table([choice.to_json() for choice in counted])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder that the command made, and what it printed."""
    place = tmp_path_factory.mktemp("board")
    model().save(place / "net.insitu")
    return place


def test_the_command_shows_them_and_its_folder_keeps_them(folder, capsys):
    assert main(["compile", str(folder / "net.insitu"), *OPTIONS, "-o", str(folder / "build")]) == 0
    said = capsys.readouterr().out
    assert "--prefer memory" in said and "--prefer speed" in said and "no flag" in said
    kept = read_manifest(folder / "build").figures["choices"]
    assert [each["name"] for each in kept] == list(NAMES)
    assert main(["compile", str(folder / "net.insitu"), *OPTIONS, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["choices"] == kept


def test_a_run_shows_one_count_of_its_own_program(folder, capsys):
    """`insitu run` counted the first step, of a new head's zeros, and showed the count of another one below it."""
    assert main(["compile", str(folder / "net.insitu"), *OPTIONS, "-o", str(folder / "ran")]) == 0
    capsys.readouterr()
    texts = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "insitu.cli.run.show", lambda arguments, text, data: (texts.append(text), show(arguments, text, data))
        )
        assert main(["run", str(folder / "ran"), "--steps", "3", "--json"]) == 0
    assert "--prefer" not in texts[0], "compile has shown the choices"
    ran = json.loads(capsys.readouterr().out)
    (chosen,) = (each for each in ran["choices"] if each["chosen"])
    counted = {verb: ran[f"{verb}_instructions"] for verb in ("train_step", "predict")}
    assert chosen["instructions"] == counted and chosen["counted"]
    compiled = next(each for each in read_manifest(folder / "ran").figures["choices"] if each["chosen"])["instructions"]
    assert counted["train_step"] == pytest.approx(compiled["train_step"], rel=0.002)


@pytest.mark.parametrize("damaged", [3, [1], [{"name": "x"}], {"a": 1}])
def test_a_damaged_list_is_refused(damaged):
    with pytest.raises(ValueError, match="choices are damaged"):
        checked_choices(damaged)


def test_wrong_numbers_are_refused(guessed):
    found = guessed[0].to_json()
    for name, value in (("sram_bytes", -1), ("flash_bytes", "9"), ("instructions", {"predict": 1.5}), ("flags", None)):
        with pytest.raises(ValueError, match="choices are damaged"):
            checked_choices([{**found, name: value}])
    checked_choices([found])
    checked_choices(None)


def test_a_deployment_without_them_says_nothing():
    deployed = made("balance", SRAM)
    assert "choices" not in manifest(deployed)["figures"] and choices_table(None) == ""


def test_rows_that_are_known_are_not_planned_again(guessed, monkeypatch):
    deployed = fresh()
    monkeypatch.setattr("insitu.deploy.programs.plan_all", None)
    assert with_choices(deployed).choices == guessed


def test_another_limit_another_version_or_a_damaged_file_means_planning_again(guessed, monkeypatch):
    deployed = fresh()
    known = key(deployed)
    assert key(replace(deployed, limits=replace(deployed.limits, flash=400_000))) != known
    place_of("choices", known, ".json").write_text("[]")
    assert with_choices(deployed).choices == guessed
    monkeypatch.setattr("insitu.deploy.remembered.sources", lambda: b"another version")
    assert key(deployed) != known


def fresh():
    """The same program with nothing else planned."""
    deployed = made("balance", SRAM)
    return replace(deployed, programs=Programs(deployed.programs.graphs))
