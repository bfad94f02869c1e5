"""Tests of a release, and of each gate: a failure publishes nothing."""
import base64
import hashlib
import json
import os
import re
import shutil
import subprocess

from cases import fails, require, require_failure, sum_holds, test

SPDX, SLSA = '{"spdxVersion": "SPDX-2.3"}', "https://slsa.dev/provenance/v1"
# The variables of GitHub's runner that provenance contains.
GITHUB = {
    "GITHUB_RUN_ID": "7", "GITHUB_RUN_ATTEMPT": "2", "GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "acme/lamp",
    "GITHUB_WORKFLOW_REF": "acme/lamp/.github/workflows/release.yml@refs/tags/v1", "GITHUB_REF": "refs/tags/v1",
}


def head(job):
    return subprocess.run(["git", "rev-parse", "HEAD"], cwd=job.checkout, capture_output=True, text=True, check=True).stdout.strip()


@test
def a_release_is_signed_tested_and_published_with_its_checksum(job):
    result = job.run(smoke_test="true", output="dist/new/fw.otaf", signatures="1", previous="previous.otaf")
    require(result.exit == 0 and not result.commands, result)
    image = (job.checkout / "fw.bin").read_bytes()
    require(result.outputs == {
        "bundle": "dist/new/fw.otaf", "product": "acme-lamp", "version": "1.1.0",
        "manifest-sha256": job.inspect("dist/new/fw.otaf")["manifest_sha256"], "image-sha256": hashlib.sha256(image).hexdigest(),
    }, result)
    require(sum_holds(job, "dist/new/fw.otaf") and image in (job.checkout / "dist/new/fw.otaf").read_bytes(), result)
    require({str(path.name) for path in (job.checkout / "dist/new").iterdir()} == {"fw.otaf", "fw.otaf.sha256"}, result)
    require(not list(job.temporary.iterdir()), result)
    stages = re.findall(r"<tr><td>([\w-]+)</td><td>(.*?)</td>", result.summary)
    require(stages == [(name, "ok") for name in ("sign", "verify", "previous", "smoke-test", "publish")], result)
    require("confirmed after 2 lost links" in result.summary, result)


@test
def two_runs_give_the_same_bytes_with_the_time_and_the_id_of_the_commit(job):
    require(job.run(output="a.otaf").exit == 0 and job.run(output="b.otaf").exit == 0, "not signed")
    require((job.checkout / "a.otaf").read_bytes() == (job.checkout / "b.otaf").read_bytes(), "other bytes")
    bundle = job.inspect("a.otaf")
    require((bundle["created"], bundle["source"]) == ("2024-05-06T07:08:09Z", head(job)), bundle)


@test
def outside_GitHub_the_result_is_JSON_and_there_are_no_commands(job):
    shutil.rmtree(job.checkout / ".git")
    result = job.run(github=False, env={"CI_COMMIT_SHA": "c0ffee", "CI_COMMIT_TIMESTAMP": "2024-05-06T09:08:09+02:00"})
    require(result.exit == 0 and "::" not in result.log, result)
    require(json.loads(result.out)["bundle"] == "fw.bin.otaf", result)
    bundle = job.inspect("fw.bin.otaf")
    require((bundle["created"], bundle["source"]) == ("2024-05-06T07:08:09Z", "c0ffee"), bundle)
    result = job.run(github=False, trust="other.pub.pem")
    require(result.exit == 77 and not result.out and "::" not in result.log, result)


@test
def the_virtual_device_fits_the_bundle_and_runs_the_previous_release(job):
    options = "--hardware 5..7\n\n--requires=0.9.0\n--minimum-battery 90"
    require(job.run(smoke_test="true", sign_options=options).exit == 0, "refused by the device")
    require(job.run(smoke_test="true", sign_options=options, previous="previous.otaf").exit == 0, "refused by the device")


@test
def a_bundle_gets_a_second_signature(job):
    require(job.run(output="one.otaf").exit == 0, "not signed")
    both = "release.pub.pem\nother.pub.pem"
    signed = {"image": "one.otaf", "key": "other.pem", "output": "two.otaf", "trust": both, "signatures": "2", "signed_image": "true"}
    for values in ({}, {"product": None, "version": None}):
        result = job.run(**signed, **values, smoke_test="true")
        require(result.exit == 0 and len(job.inspect("two.otaf")["signatures"]) == 2, result)
    result = job.run(key="release.pem\nother.pem", trust=both, signatures="2")
    require(result.exit == 0, result)


@test
def only_sign_and_attest_get_the_secret_key_and_no_output_has_it(job):
    record = 'printf "%s %s\\n" "$1" "${OTAFLASH_KEY:+key}" >>"$HOME/calls"; exec '
    path = job.wrap(record + '"$otaflash" "$@"')
    for program in ("git", "jq"):
        shutil.copy(path / "otaflash", path / program)
        (path / program).write_text(f"#!/usr/bin/env bash\n{record}{shutil.which(program)} \"$@\"\n")
    secret = (job.checkout / "release.pem").read_text()
    (job.checkout / "sbom.json").write_text(SPDX)
    result = job.run(path=path, key=None, env={"OTAFLASH_KEY": secret}, smoke_test="true", sbom="sbom.json")
    require(result.exit == 0, result)
    calls = (job.folder / "calls").read_text().split("\n")
    require([call for call in calls if call.endswith("key")] == ["sign key", "attest key"], calls)
    require({"log ", "sign key", "verify ", "simulate ", "push "} <= set(calls), calls)
    before = job.files()
    result = job.run(key=secret, output="other.otaf")
    require_failure(job, before, result, 64, "usage", "inputs")
    require(secret.split("\n")[1] not in result.log + result.summary, result)


@test
def the_provenance_and_the_SBOM_are_signed_and_published_with_the_bundle(job):
    for sbom, predicates in ((None, [SLSA]), ("app.spdx.json", [SLSA, "https://spdx.dev/Document"]),
                             ("-bom.json", [SLSA, "https://cyclonedx.org/bom"])):
        (job.checkout / "app.spdx.json").write_text(SPDX)
        (job.checkout / "-bom.json").write_text('{"bomFormat": "CycloneDX"}')
        result = job.run(attest="true", sbom=sbom, env=GITHUB | {"GITHUB_SHA": head(job)}, previous="previous.otaf",
                         smoke_test="true")
        require(result.exit == 0 and result.outputs["attestation"] == "fw.bin.otaf.intoto.jsonl", result)
        require(f"<tr><td>attest</td><td>ok</td><td><code>{', '.join(predicates)}</code>" in result.summary, result)
        lines = (job.checkout / "fw.bin.otaf.intoto.jsonl").read_text().splitlines()
        statements = [json.loads(base64.b64decode(json.loads(line)["payload"])) for line in lines]
        require([statement["predicateType"] for statement in statements] == predicates, statements)
        digest = hashlib.sha256((job.checkout / "fw.bin.otaf").read_bytes()).hexdigest()
        for statement in statements:
            require({"name": "fw.bin.otaf", "digest": {"sha256": digest}} in statement["subject"], statement)
    require("/attempts/2" in json.dumps(statements[0]["predicate"]), statements)
    # A run without attestations removes the attestations of the run before it.
    result = job.run(github=False)
    require(result.exit == 0 and json.loads(result.out)["attestation"] is None, result)
    require(not (job.checkout / "fw.bin.otaf.intoto.jsonl").exists(), result)
    result = job.run(github=False, sbom="app.spdx.json")
    require(result.exit == 0 and json.loads(result.out)["attestation"] == "fw.bin.otaf.intoto.jsonl", result)


@test
def provenance_of_a_commit_that_the_bundle_does_not_name_is_refused(job):
    commit = head(job)
    for source, code in ((f"--source={commit}", 0), ("--source=v1.1.0", 77), (f"--source={commit[:12]}", 77)):
        before = job.files()
        result = job.run(attest="true", sign_options=source, env=GITHUB | {"GITHUB_SHA": commit})
        require(result.exit == code, result)
        if code:
            require_failure(job, before, result, 77, "wrong-commit", "attest")
        else:
            for name in ("fw.bin.otaf", "fw.bin.otaf.sha256", "fw.bin.otaf.intoto.jsonl"):
                os.remove(job.checkout / name)


@test
def attest_signs_with_each_key_and_gets_the_passphrase(job):
    (job.checkout / "app.spdx.json").write_text(SPDX)
    env = {"SECRET": "correct horse"}
    subprocess.run([job.otaflash, "keygen", "locked", "--passphrase-env=SECRET"], cwd=job.checkout, env=env, check=True, capture_output=True)
    result = job.run(key="locked.pem\nrelease.pem", trust="locked.pub.pem", sbom="app.spdx.json", env=env,
                     sign_options="--passphrase-env SECRET")
    require(result.exit == 0 and result.outputs["attestation"], result)
    envelope = json.loads((job.checkout / result.outputs["attestation"]).read_text())
    require(len(envelope["signatures"]) == 2, envelope)


# --- Gates: a failure publishes nothing


@test
def a_file_at_the_output_that_is_not_from_an_earlier_run_is_kept(job):
    for suffix in ("", ".sha256", ".intoto.jsonl"):
        mine = job.checkout / f"mine.otaf{suffix}"
        shutil.copy(job.checkout / "previous.otaf", mine)
        before = mine.read_bytes()
        for image in ("fw.bin", "missing.bin"):
            fails(job, 73, "output-exists", "inputs", image=image, output="mine.otaf")
            require(mine.read_bytes() == before, "changed")
        mine.unlink()
    require(job.run(output="mine.otaf").exit == 0, "not signed")
    shutil.copy(job.checkout / "previous.otaf", job.checkout / "mine.otaf")
    before = job.files() - {"checkout/mine.otaf.sha256"}
    result = job.run(output="mine.otaf")
    require_failure(job, before, result, 73, "output-exists", "inputs")
    # Without a folder for the record, each file is kept.
    (job.checkout / "mine.otaf").unlink()
    require(job.run(output="mine.otaf", env={"HOME": ""}).exit == 0, "not signed")
    fails(job, 73, "output-exists", "inputs", output="mine.otaf", env={"HOME": ""})


@test
def an_agent_with_a_new_home_folder_gets_the_command_that_removes_the_files(job):
    require(job.run(output="mine.otaf").exit == 0, "not signed")
    home = {"HOME": str(job.folder / "new-home")}
    fails(job, 73, "output-exists", "inputs", output="mine.otaf", env=home)
    result = job.run(output="mine.otaf", env=home, github=False)
    require(f"no record that an earlier run made it in {home['HOME']}/.local/state/otaflash/release-step" in result.err, result)
    command = result.err.split("hint: if an earlier run made it, remove it: ")[1].split(";")[0]
    require(command == "rm -- 'mine.otaf' 'mine.otaf.sha256'", command)
    subprocess.run(command, shell=True, cwd=job.checkout, check=True)
    require(job.run(output="mine.otaf", env=home).exit == 0, "not signed again")
    # With a state folder that stays, a new home folder has no effect.
    state = {"XDG_STATE_HOME": str(job.folder / "state")}
    for name in ("one", "two"):
        require(job.run(output="kept.otaf", env={**state, "HOME": str(job.folder / name)}).exit == 0, "not kept")


@test
def a_file_that_another_program_writes_to_the_output_during_the_step_is_kept(job):
    # The wrapper writes a file to the output after the step has searched the output for files.
    for suffix in ("", ".sha256"):
        mine = job.checkout / f"mine.otaf{suffix}"
        path = job.wrap(f'[ "$1" != verify ] || echo mine >{mine}; exec "$otaflash" "$@"')
        result = job.run(path=path, output="mine.otaf")
        require(mine.read_text() == "mine\n", "replaced")
        require_failure(job, job.files(), result, 73, "output-exists", "publish")
        require([path.name for path in job.checkout.glob("mine.otaf*")] == [mine.name], job.files())
        mine.unlink()


@test
def a_file_that_git_tracks_is_kept(job):
    before = (job.checkout / "previous.otaf").read_bytes()
    fails(job, 73, "output-exists", "inputs", image="missing.bin", output="previous.otaf")
    require((job.checkout / "previous.otaf").read_bytes() == before, "changed")


@test
def a_tag_with_a_leading_v_is_a_version(job):
    result = job.run(version="v1.4.0")
    require(result.exit == 0 and result.outputs["version"] == "1.4.0", result)
    result = job.run(version="v1.4.0", image="fw.bin.otaf", output="two.otaf", signed_image="true", key="other.pem")
    require(result.exit == 0 and result.outputs["version"] == "1.4.0", result)
    for version in ("vv1.4.0", "v", "version-1.4.0"):
        result = job.run(version=version, output="other.otaf")
        require(result.exit == 64 and f"'{version}' is not a valid value for the input version" in result.log, result)


@test
def a_bundle_from_changed_files_of_the_commit_names_them_as_its_source(job):
    commit = head(job)
    os.utime(job.checkout / "fw.bin")
    (job.checkout / "build").mkdir()
    (job.checkout / "build/new").write_text("not in the commit")
    require(job.run().exit == 0 and job.inspect("fw.bin.otaf")["source"] == commit, "not the commit")
    with open(job.checkout / "fw.bin", "ab") as file:
        file.write(b"x")
    for folder in ("", "build"):
        result = job.run(github=False, script=f"cd ./{folder} && {job.step}", output=f"{job.checkout}/dirty{folder}.otaf",
                         image=f"{job.checkout}/fw.bin", key=f"{job.checkout}/release.pem", trust=f"{job.checkout}/release.pub.pem")
        require(result.exit == 0 and "files of the commit are changed" in result.log, result)
        require(job.inspect(f"dirty{folder}.otaf")["source"] == f"{commit}-dirty", result)
    fails(job, 77, "wrong-commit", "attest", attest="true", env=GITHUB | {"GITHUB_SHA": commit}, output="attested.otaf")


@test
def a_failure_names_the_stage_and_the_inputs_and_no_file_of_the_run(job):
    hints = {
        "sign": ({"product": None}, "give the input product: NAME"),
        "verify": ({"trust": "other.pub.pem"}, "the input trust"),
        "previous": ({"version": "0.1.0", "previous": "previous.otaf"}, "raise the input version"),
        "inputs": ({"sbom": "nothing.json"}, "check the path in the input sbom"),
    }
    for stage, (inputs, hint) in hints.items():
        result = job.run(github=False, **inputs)
        lines = result.err.splitlines()
        require(result.exit != 0 and not result.out, result)
        require(any(line.startswith("release-step: hint: ") and hint in line for line in lines), result)
        require(lines[-1].startswith(f"release-step: stage {stage} failed: ") and f"(exit code {result.exit})" in lines[-1], result)
        require(str(job.temporary) not in result.log and " --" not in result.log, result)
    for inputs, hint in (({"version": None}, "input version"), ({"counter": "x"}, "input counter"), ({"signatures": "x"}, "input signatures"),
                         ({"key": None}, "input key"), ({"counter": "3", "previous": "previous.otaf"}, "input counter"),
                         ({"product": "other", "previous": "previous.otaf"}, "input product"), ({"signatures": "2"}, "input key"),
                         ({"previous": "fw.bin"}, "input previous"), ({"attest": "true"}, "input attest")):
        result = job.run(github=False, **inputs)
        require(result.exit != 0 and hint in result.err and str(job.temporary) not in result.log and " --" not in
                result.log.replace("release-step --help", ""), result)


@test
def the_help_lists_the_inputs_and_other_arguments_are_refused(job):
    result = job.run(github=False, script=f"{job.step} --help")
    listed = set(re.findall(r"^  ([a-z-]+)  ", result.out, re.MULTILINE))
    step = set(re.findall(r"\bINPUT_([A-Z_]+)", job.step.read_text()))
    require(result.exit == 0 and {name.upper().replace("-", "_") for name in listed} == step, result)
    before = job.files()
    result = job.run(github=False, script=f"{job.step} fw.bin")
    require(result.exit == 64 and "release-step --help" in result.err and job.files() == before, result)


@test
def an_attestation_that_cannot_be_signed_or_verified_is_refused(job):
    sbom = job.checkout / "app.spdx.json"
    sbom.write_text(SPDX)
    fails(job, 64, "usage", "attest", attest="true")
    fails(job, 77, "wrong-commit", "attest", attest="true", env=GITHUB | {"GITHUB_SHA": "0" * 40})
    fails(job, 77, "wrong-commit", "attest", attest="true", env={"CI_JOB_URL": "https://gitlab.com/x", "CI_COMMIT_SHA": "0" * 40})
    os.mkfifo(job.checkout / "pipe.json")
    fails(job, 66, "no-such-file", "inputs", sbom="nothing.json")
    for name in ("pipe.json", "."):
        fails(job, 66, "not-a-file", "inputs", sbom=name)
    fails(job, 64, "usage", "inputs", sbom=sbom.name, sign_options="--passphrase-fd 3")
    fails(job, 64, "usage", "inputs", attest="yes")
    for text in ("", "[]", "7", "SPDXVersion: SPDX-2.3", '{"spdxVersion": 2}', '{"bomFormat": "Other"}'):
        sbom.write_text(text)
        fails(job, 65, "unknown-sbom", "attest", sbom=sbom.name)
    for name in ("x.otaf.sha256", "x.otaf.intoto.jsonl"):
        (job.checkout / name).write_text(SPDX)
        fails(job, 64, "usage", "inputs", sbom=name, output="x.otaf")
        fails(job, 64, "usage", "inputs", key=f"release.pem\n{name}", output="x.otaf")
        fails(job, 64, "usage", "inputs", trust=f"release.pub.pem\n{name}", output="x.otaf")


@test
def a_key_that_the_devices_do_not_trust_is_refused(job):
    fails(job, 77, "untrusted-key", "verify", trust="other.pub.pem")


@test
def a_bundle_that_was_changed_after_signing_is_refused(job):
    path = job.wrap('''"$otaflash" "$@"; [ "$1" != sign ] || for argument; do case $argument in --output=*)
        printf X | dd status=none of="${argument#*=}" bs=1 seek=2000 conv=notrunc;; esac; done''')
    fails(job, 77, "digest-mismatch", "verify", path=path)


@test
def a_bundle_that_cannot_follow_the_previous_one_is_refused(job):
    fails(job, 77, "counter-lowered", "previous", previous="previous.otaf", counter="3")
    fails(job, 77, "version-not-raised", "previous", previous="previous.otaf", version="1.0.0")
    fails(job, 77, "too-few-signatures", "verify", signatures="2")
    fails(job, 66, "no-such-file", "inputs", previous="nothing.otaf")
    fails(job, 65, "bad-magic", "previous", previous="fw.bin")


@test
def missing_files_and_keys_are_reported(job):
    fails(job, 66, "no-such-file", "inputs", image="nothing.bin")
    fails(job, 66, "no-such-file", "inputs", key="nothing.pem")
    before = job.files()
    result = job.run(key=None)
    require(result.exit != 0 and "OTAFLASH_KEY" in result.log and job.files() == before, result)
    fails(job, 66, "no-such-file", "inputs", trust="nothing.pub.pem")
    fails(job, 64, "usage", "inputs", trust="\n")


@test
def an_update_that_is_not_confirmed_is_refused(job):
    gone = job.wrap('exec "$otaflash" "${@/drop-at=*/gone-at=0.5}"')
    fails(job, 75, "link-lost", "smoke-test", smoke_test="true", path=gone)
    trial = job.wrap('if [ "$1" = push ]; then exec "$otaflash" push --no-confirm "${@:2}"; fi; exec "$otaflash" "$@"')
    fails(job, 70, "not-confirmed", "smoke-test", smoke_test="true", path=trial)
    killed = job.wrap('[ "$1" != push ] || kill -9 $$; exec "$otaflash" "$@"')
    fails(job, 137, "internal", "smoke-test", smoke_test="true", path=killed)
    silent = job.wrap('[ "$1" != verify ] || exit 0; exec "$otaflash" "$@"')
    fails(job, 70, "internal", "verify", path=silent)


@test
def a_failure_removes_the_bundle_of_an_earlier_run(job):
    before = job.files()
    require(job.run(output="fw.otaf").exit == 0, "not signed")
    require_failure(job, before, job.run(output="fw.otaf", trust="other.pub.pem"), 77, "untrusted-key", "verify")


@test
def a_failure_of_the_inputs_removes_the_bundle_of_an_earlier_run(job):
    before = job.files()
    for wrong in ({"image": None}, {"previous": ".git/config"}, {"trust": "\n"}, {"sign_options": "--force"}, {"attest": "yes"}):
        require(job.run(output="fw.otaf").exit == 0, "not signed")
        result = job.run(**{"output": "fw.otaf", **wrong})
        require(result.exit in (64, 77) and job.files() == before, result)


@test
def a_result_that_cannot_be_written_publishes_nothing(job):
    before = job.files()
    for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"):
        result = job.run(env={name: "/nothing/x"})
        require(result.exit != 0 and job.files() == before and "nothing is published" in result.log, result)
    result = job.run(github=False, script=f"{job.step} >/dev/full")
    require(result.exit != 0 and job.files() == before and "nothing is published" in result.log, result)


@test
def the_temporary_folder_can_be_relative_and_must_exist(job):
    (job.checkout / "t").mkdir()
    require(job.run(env={"RUNNER_TEMP": "t"}, smoke_test="true").exit == 0, "refused")
    fails(job, 73, "cannot-create", "inputs", env={"RUNNER_TEMP": "/nothing"}, output="other.otaf")


@test
def an_output_that_cannot_be_written_is_refused(job):
    fails(job, 73, "cannot-create", "publish", output="fw.bin/fw.otaf")
    fails(job, 64, "usage", "inputs", output="release.pem")
    fails(job, 64, "usage", "inputs", output="previous.otaf", previous="previous.otaf")
    fails(job, 64, "usage", "inputs", output="./previous.otaf", image="previous.otaf")
    (job.checkout / "folder.otaf").mkdir()
    fails(job, 64, "usage", "inputs", output="folder.otaf")
