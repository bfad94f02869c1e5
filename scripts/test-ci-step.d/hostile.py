"""Tests with the inputs and files of a hostile pull request."""
import os
import shutil
import subprocess

from cases import fails, require, require_failure, sum_holds, test

NAMES = [
    "a b.bin", "a\nb.bin", "end\n", "$(touch pwned).bin", "`touch pwned`.bin", ";touch pwned;.bin", "::error::x.bin", "::add-mask::e",
    "\n::warning::x", "##[set-output name=bundle]x", "\r::notice::x", "-o.bin", "--help", "-", "--", "%0A::warning::x.bin", "a,b:c=d.bin",
    "<img src=x>`|*.bin", "'\"\\.bin", "\u202egnp.bin", "bundle<<x\ny", "*", "~", "{a,b}", "$HOME", "!!", "\u2028::warning::x",
]


@test
def hostile_file_names_are_names_and_nothing_else(job):
    for name in NAMES:
        before = job.files()
        shutil.copy(job.checkout / "fw.bin", job.checkout / name)
        result = job.run(image=name)
        # A name that starts with a hyphen gets ./ before it.
        bundle = f"./{name}.otaf" if name.startswith("-") else f"{name}.otaf"
        require(result.exit == 0 and not result.commands and result.outputs["bundle"] == bundle, result)
        require(sum_holds(job, bundle), result)
        require("<img" not in result.summary and result.summary.count("\n") == 11 and "\u202e" not in result.summary, result)
        result = job.run(image=name, trust="other.pub.pem", previous=name, output="x.otaf")
        os.remove(job.checkout / name)
        for suffix in (".otaf", ".otaf.sha256"):
            os.remove(job.checkout / (name + suffix))
        require_failure(job, before, result, 77, "untrusted-key", "verify", file=name)
    shutil.copy(job.checkout / "fw.bin", job.checkout / "\udcff.bin")
    fails(job, 64, "usage", "sign", image="\udcff.bin")


@test
def hostile_options_and_values_are_refused_or_are_only_text(job):
    lines = [
        "$(touch pwned)", "`touch pwned`", "--output=stolen.otaf", "-o stolen.otaf", "-ostolen.otaf", "--force", "--help",
        "--key=other.pem", "--as=mcuboot", "--log=stolen", "--", "other.pem", "--hardware", "--format=text",
        "--source=a\n--output=stolen.otaf", " --source=a",
        "--trust=other.pub.pem", "::error::x", "--allow-demo-key",
    ]
    for line in lines:
        fails(job, 64, "usage", "inputs", sign_options=line)
    fails(job, 64, "usage", "sign", sign_options="--hardware=$(touch pwned)")
    fails(job, 64, "usage", "sign", version="1.0.0;touch pwned")
    fails(job, 64, "usage", "sign", product="--force x")
    fails(job, 64, "usage", "sign", counter="a[$(touch pwned)]")
    fails(job, 64, "usage", "verify", signatures="x[$(touch pwned)]")
    fails(job, 64, "usage", "inputs", smoke_test="$(touch pwned)")
    fails(job, 64, "usage", "install", otaflash_version="0.1.0/../../x", otaflash_url="file:///")
    before = job.files()
    for key in ("env:x[$(touch pwned)]", "env:X[$(touch pwned)]", "env:", "env:lower", "--help", "$(touch pwned)"):
        result = job.run(key=key)
        require(result.exit != 0 and job.files() == before, result)
    result = job.run(sign_options="--source=$(touch pwned) `touch pwned` ::error::x")
    require(result.exit == 0 and not result.commands and not (job.checkout / "pwned").exists(), result)
    require(job.inspect("fw.bin.otaf")["source"] == "$(touch pwned) `touch pwned` ::error::x", result)


# The files of a bare repository whose file config has a command, which git runs to get the missing commit.
REPOSITORY = {
    "HEAD": "ref: refs/heads/main\n", "refs/heads/main": "1" * 40 + "\n", "objects/x/keep": "",
    "config": """[core]
    repositoryformatversion = 1
    bare = true
[extensions]
    partialClone = origin
[remote "origin"]
    url = .
    promisor = true
    uploadpack = "touch pwned; false"
""",
}


@test
def a_folder_that_looks_like_a_repository_runs_no_command(job):
    top, job.checkout = job.checkout, job.checkout / "sub"
    job.checkout.mkdir()
    for name, text in REPOSITORY.items():
        (job.checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (job.checkout / name).write_text(text)
    for name in ("fw.bin", "release.pem", "release.pub.pem"):
        shutil.copy(top / name, job.checkout / name)
    result = job.run()
    require(result.exit == 0, result)
    # The commit is that of the repository above the folder.
    require(job.inspect("fw.bin.otaf")["created"] == "2024-05-06T07:08:09Z", result)
    job.checkout = top


@test
def a_pipe_is_refused(job):
    os.mkfifo(job.checkout / "pipe.bin")
    for name in ("image", "previous"):
        fails(job, 66, "not-a-file", "inputs", **{name: "pipe.bin"}, output="x.otaf")


@test
def a_link_cannot_make_the_step_publish_or_replace_another_file(job):
    outside = job.folder / "outside"
    outside.mkdir()
    secret = outside / "secret.otaf"
    # Text would be refused as an image.
    contents = b"secret\x80" * 1000
    secret.write_bytes(contents)
    links = [("link.bin", secret), ("environment.bin", "/proc/self/environ"), ("nested", outside), ("git.bin", ".git/config"),
             ("key.bin", "release.pem")]
    for link, target in links:
        os.symlink(target, job.checkout / link)
    absolute = str(job.checkout / "link.bin")
    for image in ("link.bin", "environment.bin", "nested/secret.otaf", "../outside/../checkout/link.bin", "git.bin", "key.bin", absolute):
        fails(job, 77, "symbolic-link", "inputs", image=image, output="x.otaf")
    for image in ("/proc/self/environ", ".git/config"):
        fails(job, 77, "system-file", "inputs", image=image, output="x.otaf")
    fails(job, 77, "symbolic-link", "inputs", previous="link.bin")
    fails(job, 77, "symbolic-link", "inputs", sbom="link.bin")
    fails(job, 77, "symbolic-link", "inputs", output="nested/secret.otaf")
    os.symlink(secret, job.checkout / "fw.otaf")
    fails(job, 77, "symbolic-link", "inputs", output="fw.otaf")
    require(secret.read_bytes() == contents, "replaced")
    # The pipeline may name a file outside the checkout.
    require(job.run(image=str(outside / "secret.otaf"), output="y.otaf").exit == 0, "not signed")


@test
def an_image_that_somebody_has_signed_is_refused(job):
    def otaflash(*command):
        subprocess.run([job.otaflash, *command], cwd=job.checkout, check=True, capture_output=True)
    otaflash("sign", "fw.bin", "--key=other.pem", "--product=evil", "--version=9.0.0", "--counter=4294967295", "--output=evil.otaf")
    (job.checkout / "header.bin").write_bytes(bytes(512) + (job.checkout / "fw.bin").read_bytes())
    otaflash("sign", "header.bin", "--key=other.pem", "--as=mcuboot", "--version=1.1.0", "--header-size=512", "--output=signed.bin")
    for signed in ("evil.otaf", "signed.bin"):
        fails(job, 77, "signed-image", "sign", image=signed, output="x.otaf", product=None, version=None, counter=None)
        fails(job, 64, "usage", "inputs", image=signed, output="x.otaf", signed_image="yes")
    result = job.run(image="signed.bin", output="x.otaf", signed_image="true")
    require(result.exit == 0 and job.inspect("x.otaf")["security_counter"] == 5, result)
    # The values of an accepted bundle are those of the inputs, and an absent counter is 0.
    evil = {"image": "evil.otaf", "output": "y.otaf", "signed_image": "true", "product": None, "version": None, "counter": None}
    for values in ({}, {"counter": "5"}, {"counter": "4294967295", "product": "acme-lamp"}, {"counter": "4294967295", "version": "1.1.0"}):
        fails(job, 77, "wrong-value", "sign", **evil | values)
