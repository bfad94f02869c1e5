"""Plays the examples of docs/pipelines.md from the first release to the third, and a fourth release that must fail.

The jobs run on this machine, each in a new checkout. A local server is GitLab's package registry, and a program is a model of `gh`. The
model of apt-get installs otaflash only from a file that exists.
"""
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess

from cases import require, test
from registry import PackageRegistry
from runner import outputs

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DEB = "otaflash_0.1.0_amd64.deb"
VENV = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "otaflash/venv/bin/python"
# The release, and whether it must succeed: the version of the last one is too low.
RELEASES = (("v1.0.0", True), ("v1.1.0", True), ("v1.2.0", True), ("v1.1.5", False))
PROGRAMS = {
    "sudo": 'exec "$@"\n',
    "apt-get": '''for name; do case $name in ./*.deb) cp "$name" "$BIN/deb" && ln -sf "$OTAFLASH" "$BIN/otaflash" ;; esac; done\n''',
    # gh fails without a token, and without a release. It does not replace a file.
    "gh": r'''
[ -n "$GH_TOKEN" ] || { echo "gh: set the GH_TOKEN environment variable" >&2; exit 4; }
command="$1 $2"; shift 2
tag='' repository=acme pattern='' output='' files=()
while (($# > 0)); do
    case $1 in
        --repo) repository=other; shift 2 ;;
        --pattern) pattern=$2; shift 2 ;;
        --output) output=$2; shift 2 ;;
        --limit | --json | --jq) shift 2 ;;
        --*) shift ;;
        *) if [ -z "$tag" ]; then tag=$1; else files+=("$1"); fi; shift ;;
    esac
done
folder=$RELEASES/$repository
case $command in
    'release list') ls "$folder" | head -n 1 | wc -l ;;
    'release create') mkdir "$folder/$tag" && cp "${files[@]}" "$folder/$tag" ;;
    'release download')
        : "${tag:=$(ls "$folder" | tail -n 1)}"
        [ -n "$tag" ] || { echo "release not found" >&2; exit 1; }
        found=("$folder/$tag"/$pattern)
        [ -e "${found[0]}" ] || { echo "no assets match the file pattern" >&2; exit 1; }
        [ ! -e "${output:=${found[0]##*/}}" ] || { echo "$output already exists" >&2; exit 1; }
        cp "${found[0]}" "$output" ;;
    *) exit 64 ;;
esac
''',
}


def yaml(text):
    """Returns the documents of a text in YAML."""
    program = "import json, sys, yaml; print(json.dumps(list(yaml.load_all(sys.stdin, yaml.BaseLoader))))"
    return json.loads(subprocess.run([VENV, "-c", program], input=text, capture_output=True, text=True, check=True).stdout)


def examples():
    """Returns the fenced examples of the page by their language, with the digest of the package in place of SHA256."""
    page = (ROOT / "docs/pipelines.md").read_text().replace("SHA256  ", hashlib.sha256(b"package").hexdigest() + "  ")
    found = re.findall(r"^```(\w+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return {language: [text for name, text in found if name == language] for language in ("yaml", "sh")}


class World:
    """A repository with an example, and the services that the example uses."""

    def __init__(self, job):
        self.job, self.folder, self.count = job, job.folder / "world", 0
        self.repository, self.bin = self.folder / "repository", self.folder / "bin"
        for name in ("repository/ci", "repository/keys", "bin", "artifacts", "releases/acme", "releases/other/v0.1.0"):
            (self.folder / name).mkdir(parents=True)
        for name, script in PROGRAMS.items():
            (self.bin / name).write_text(f"#!/usr/bin/env bash\nset -e\n{script}")
            (self.bin / name).chmod(0o755)
        (self.folder / "releases/other/v0.1.0" / DEB).write_bytes(b"package")
        shutil.copy(job.checkout / "release.pub.pem", self.repository / "keys")
        shutil.copy(ROOT / "ci/gitlab.yml", self.repository / "ci")
        shutil.copy(job.step, self.repository / "ci/release-step")
        (self.repository / "Makefile").write_text("build/firmware.bin: source.bin\n\tmkdir -p build\n\tcp source.bin build/firmware.bin\n")
        self.git("init", "--quiet")
        self.key = (job.checkout / "release.pem").read_text()

    def git(self, *words):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@example.com", *words], cwd=self.repository, check=True)

    def commit(self, tag):
        """Changes the firmware, a raw image, and commits it."""
        source = b"".join(hashlib.sha512(f"{tag} {number}".encode()).digest() for number in range(100))
        (self.repository / "source.bin").write_bytes(source)
        self.git("add", "--all")
        self.git("commit", "--quiet", f"--message={tag}")

    def checkout(self):
        self.count += 1
        work = self.folder / f"work-{self.count}"
        shutil.copytree(self.repository, work)
        (self.bin / "otaflash").unlink(missing_ok=True)
        return work

    def run(self, script, work, env):
        """Runs a script in the machine of a job. No otaflash is installed on the machine."""
        variables = {"PATH": f"{self.bin}:/usr/local/bin:/usr/bin:/bin", "HOME": str(self.folder), "TMPDIR": str(self.job.temporary),
                     "BIN": str(self.bin), "OTAFLASH": str(self.job.otaflash), "RELEASES": str(self.folder / "releases")}
        return subprocess.run(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script], cwd=work, env=variables | env,
                              capture_output=True, text=True, timeout=120)


def play_github(world, workflow, tag):
    """Runs the jobs of a workflow and returns the log. The log ends with the step that failed."""
    context = {"github.token": "token", "github.ref_name": tag, "secrets.OTAFLASH_KEY": world.key}
    log = ""

    def value(text):
        return re.sub(r"\$\{\{ ([\w.-]+) \}\}", lambda found: context[found[1]], text)

    action = yaml((ROOT / "ci/action.yml").read_text())[0]
    for job in workflow["jobs"].values():
        work = None
        for number, step in enumerate(job["steps"]):
            uses, given = step.get("uses", ""), step.get("with", {})
            env = {name: value(text) for name, text in step.get("env", {}).items()}
            if uses.startswith("actions/checkout@"):
                work = world.checkout()
            elif uses.startswith("actions/upload-artifact@"):
                shutil.copy(work / given["path"], world.folder / "artifacts")
            elif uses.startswith("actions/download-artifact@"):
                shutil.copytree(world.folder / "artifacts", work / given["path"])
            else:
                script, names = step.get("run"), []
                if uses:
                    require(uses == "OWNER/otaflash/ci@COMMIT" and set(given) <= set(action["inputs"]), step)
                    for name, about in action["inputs"].items():
                        context[f"inputs.{name}"] = value(given.get(name, about.get("default", "")))
                    context["github.action_repository"] = "OWNER/otaflash"
                    inner = action["runs"]["steps"][0]
                    script, env = inner["run"], env | {name: value(text) for name, text in inner["env"].items()}
                    names = list(action["outputs"])
                written = work.parent / f"{work.name}-output-{number}"
                written.touch()
                run = world.run(value(script), work, env | {
                    "GITHUB_ACTION_PATH": str(world.repository / "ci"), "GITHUB_ACTIONS": "true", "GITHUB_OUTPUT": str(written),
                    "GITHUB_REF_NAME": tag})
                log += run.stdout + run.stderr
                if run.returncode != 0:
                    return f"{log}\nfailed: {step.get('name', step.get('id'))}"
                # An output that a step does not set is empty.
                found = dict.fromkeys([*names, "bundle"], "") | outputs(written.read_text())
                context |= {f"steps.{step.get('id')}.outputs.{name}": text for name, text in found.items()}
    return log


def play_gitlab(world, pipeline, tag, api):
    """Runs the jobs of a pipeline and returns the log. The log ends with the job that failed."""
    log, include = "", pipeline["include"][0]
    spec, template = (ROOT / include["local"]).read_text().split("\n---\n")
    inputs = {name: about.get("default") for name, about in yaml(spec)[0]["spec"]["inputs"].items()} | include["inputs"]
    require(None not in inputs.values() and set(include["inputs"]) <= set(inputs), inputs)

    def filled(part):
        if isinstance(part, dict):
            return {name: filled(item) for name, item in part.items()}
        if isinstance(part, list):
            return [filled(item) for item in part]
        return re.sub(r"\$\[\[ inputs\.([a-z-]+) \]\]", lambda found: inputs[found[1]], part)

    jobs = {name: job for name, job in pipeline.items() if name != "include"}
    for name, job in filled(yaml(template)[0]).items():
        jobs[name] = job | jobs.get(name, {})
    predefined = {"CI_API_V4_URL": api, "CI_PROJECT_ID": "7", "CI_JOB_TOKEN": "job", "CI_COMMIT_TAG": tag, "GITLAB_CI": "true"}
    for name in ("build", "otaflash-release", "publish"):
        job, work = jobs[name], world.checkout()
        for needed in job.get("needs", []):
            shutil.copytree(world.folder / "artifacts" / needed, work, dirs_exist_ok=True)
        # GitLab's runner makes the files of the checkout writable for everybody.
        subprocess.run(["chmod", "-R", "a+w", "."], cwd=work, check=True)
        env = predefined | ({"OTAFLASH_KEY": world.key} if job.get("environment") == "release" else {})
        variables = {key: re.sub(r"\$(\w+)", lambda found: env.get(found[1], ""), text) for key, text in job.get("variables", {}).items()}
        run = world.run("\n".join(job.get("before_script", []) + job["script"]), work, env | variables)
        log += run.stdout + run.stderr
        if run.returncode != 0:
            return f"{log}\nfailed: {name}"
        for path in job.get("artifacts", {}).get("paths", []):
            if (work / path).exists():
                target = world.folder / "artifacts" / name / path
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(work / path, target)
    return log


def play(world, release, published):
    """Makes the releases. `release` runs the pipeline for a tag, and `published` returns the published bundle of a tag or None."""
    before = None
    for tag, is_good in RELEASES:
        world.commit(tag)
        shutil.rmtree(world.folder / "artifacts")
        (world.folder / "artifacts").mkdir()
        log = release(tag)
        if not is_good:
            require("the input previous" in log and "failed: " in log and published(tag) is None, log)
            continue
        require("failed: " not in log, log)
        require(("no previous bundle" in log) == (before is None), log)
        bundle = world.job.inspect(published(tag))
        require((bundle["product"], bundle["version"], bundle["security_counter"]) == ("acme-lamp", tag[1:], 7), bundle)
        before = tag


@test
def the_example_for_GitHub_makes_a_first_and_later_releases(job):
    world = World(job)
    workflow = yaml(examples()["yaml"][0])[0]

    def published(tag):
        folder = world.folder / "releases/acme" / tag
        if not folder.exists():
            return None
        require(subprocess.run(["sha256sum", "--check", "--status", "firmware.otaf.sha256"], cwd=folder).returncode == 0, "checksum")
        return folder / "firmware.otaf"

    play(world, lambda tag: play_github(world, workflow, tag), published)


@test
def the_example_for_GitLab_makes_a_first_and_later_releases(job):
    world = World(job)
    pipeline = yaml(examples()["yaml"][1])[0]
    with PackageRegistry(world.folder / "registry", project="7", tokens={"JOB-TOKEN": "job", "PRIVATE-TOKEN": "mine"}) as api:
        (world.folder / DEB).write_bytes(b"package")
        run = world.run(examples()["sh"][0], world.folder, {"TOKEN": "mine", "CI_API_V4_URL": api, "CI_PROJECT_ID": "7"})
        require(run.returncode == 0, run)

        def published(tag):
            path = world.folder / "registry/firmware" / tag / "firmware.otaf"
            return path if path.exists() else None

        play(world, lambda tag: play_gitlab(world, pipeline, tag, api), published)
