"""Tests of the installation of otaflash, of the files for the CI systems, and of their documentation."""
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from cases import fails, require, sum_holds, test

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


@test
def a_version_of_otaflash_is_installed_only_with_the_signature_of_the_release_key(job):
    machine = os.uname().machine
    name = f"otaflash-9.9.9-linux-{machine}"
    release, step = job.folder / "release", job.folder / "ci"
    shutil.copytree(ROOT / "ci", step)
    shutil.copy(job.step, step / "release-step")
    (step / "release-key").unlink(missing_ok=True)
    (release / name).mkdir(parents=True)
    shutil.move(job.wrap('echo installed >>"$HOME/calls"; exec "$otaflash" "$@"') / "otaflash", release / name / "otaflash")
    archive = f"{name}.tar.gz"
    subprocess.run(["tar", "-czf", archive, name], cwd=release, check=True)
    real, job.step = job.step, step / "release-step"

    def sign(key="release.pem"):
        sums = subprocess.run(["sha256sum", archive], cwd=release, capture_output=True, text=True, check=True).stdout
        (release / "SHA256SUMS").write_text(sums)
        signed = subprocess.run(
            [sys.executable, ROOT / "scripts/minisign.py", job.checkout / key, release / "SHA256SUMS", "otaflash 9.9.9"],
            capture_output=True, text=True, check=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
        return signed.stdout

    wanted = {"otaflash_version": "9.9.9", "otaflash_url": release.as_uri() + "/"}
    key = sign()
    fails(job, 66, "no-release-key", "install", **wanted)
    (step / "release-key").write_text(key)
    result = job.run(**wanted)
    require(result.exit == 0 and (job.folder / "calls").read_text() == "installed\n" * 3, result)
    os.remove(job.checkout / "fw.bin.otaf")
    os.remove(job.checkout / "fw.bin.otaf.sha256")

    with open(release / archive, "ab") as file:
        file.write(b"x")
    fails(job, 77, "bad-release-checksum", "install", **wanted)
    sums = (release / "SHA256SUMS").read_text()
    (release / "SHA256SUMS").write_text(hashlib.sha256((release / archive).read_bytes()).hexdigest() + sums[64:])
    fails(job, 77, "bad-release-signature", "install", **wanted)
    sign("other.pem")
    fails(job, 77, "bad-release-signature", "install", **wanted)
    (step / "release-key").write_text("")
    fails(job, 77, "bad-release-signature", "install", **wanted)
    fails(job, 69, "download-failed", "install", otaflash_version="9.9.8", otaflash_url=release.as_uri())
    fails(job, 69, "download-failed", "install", otaflash_version="9.9.9", otaflash_url="ftp://localhost/x")
    fails(job, 64, "usage", "install", otaflash_version="9.9.9")
    job.step = real


@test
def the_inputs_of_GitHub_and_GitLab_are_those_of_the_step(job):
    step = set(re.findall(r"\bINPUT_([A-Z_]+)", (ROOT / "ci/release-step").read_text()))
    for name, opening, closing in (("action.yml", r"\$\{\{ inputs.", r" \}\}"), ("gitlab.yml", r"\$\[\[ inputs.", r" \]\]")):
        text = (ROOT / "ci" / name).read_text()
        mapped = re.findall(rf"INPUT_([A-Z_]+): {opening}([a-z-]+){closing}", text)
        require({variable for variable, _ in mapped} == step, mapped)
        require(all(variable == value.upper().replace("-", "_") for variable, value in mapped), mapped)
        scripts = re.findall(r"^ *(?:run|script): *(.*(?:\n +- .*|\n +#.*)*)", text, re.MULTILINE)
        require(scripts and not re.search(r"\$\{\{|\$\[\[", "".join(scripts)), scripts)


@test
def the_example_for_Jenkins_releases_a_raw_image_after_a_previous_bundle(job):
    page = (ROOT / "docs/pipelines.md").read_text()
    stage = re.search(r"environment \{\n(.*?)\}\n    steps", page, re.DOTALL)[1]
    inputs = dict(re.findall(r"INPUT_([A-Z_]+) = ['\"](.*)['\"]", stage))
    require(inputs["VERSION"] == "${TAG_NAME}" and len(inputs) == len(stage.strip().splitlines()), stage)
    for folder in ("build", "keys", "ci"):
        (job.checkout / folder).mkdir()
    shutil.copy(job.checkout / "fw.bin", job.checkout / "build/firmware.bin")
    shutil.copy(job.checkout / "release.pub.pem", job.checkout / "keys")
    shutil.copy(job.step, job.checkout / "ci/release-step")
    given = {name.lower(): value for name, value in (inputs | {"VERSION": "v1.1.0"}).items()}
    result = job.run(github=False, smoke_test="true", script=re.search(r"sh '(.*)'", page)[1], **given)
    require(result.exit == 0 and job.inspect("firmware.otaf")["version"] == "1.1.0", result)
    require(sum_holds(job, "firmware.otaf") and "no previous bundle" not in result.log, result)


@test
def the_documentation_describes_each_input(job):
    page = (ROOT / "docs/pipelines.md").read_text()
    step = set(re.findall(r"\bINPUT_([A-Z_]+)", (ROOT / "ci/release-step").read_text()))
    table = re.search(r"\n## Inputs\n(.*?)\n## ", page, re.DOTALL)[1]
    described = {name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`([a-z-]+)`", row)}
    require({name.upper().replace("-", "_") for name in described} == step, described)
    require(set(re.findall(r"\bINPUT_([A-Z_]+)", page)) <= step, page)


@test
def the_problem_matcher_finds_the_message_of_an_error(job):
    pattern = json.loads((ROOT / "ci/problem-matcher.json").read_text())["problemMatcher"][0]["pattern"][0]
    run = subprocess.run([job.otaflash, "verify", "nothing.otaf"], capture_output=True, text=True)
    found = [match for line in run.stderr.split("\n") if (match := re.match(pattern["regexp"], line))]
    require(len(found) == 1, run.stderr)
    parts = tuple(found[0][pattern[part]] for part in ("severity", "code", "message"))
    require(parts == ("error", "no-such-file", "there is no file nothing.otaf"), run.stderr)
