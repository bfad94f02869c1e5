import FoundationEssentials
import NATSTestSupport
import OTATestSupport
import SystemPackage
import Testing

/// The indented blocks of README and docs. A block is run word by word, or its entry in `pages` has the reason why not. A block without an
/// entry fails. An entry without a block fails, too.
@Suite("Command blocks in README and docs") struct DocumentationTests {
    /// A page, and what happens to each of its blocks.
    struct Page: Sendable, CustomTestStringConvertible {
        let name: String
        /// A shell script that makes devices, tokens and other programs in place of hardware and services. The page itself makes its keys,
        /// images and bundles: its first block starts in an empty folder with the firmware samples.
        var setup = ""
        var blocks: [Block]

        var testDescription: String { name }
    }

    /// The block that starts with this text.
    enum Block: Sendable {
        /// The block is run in the order of the page, in the same shell. Before, texts are replaced: placeholders, addresses of hardware,
        /// and commands that do not end.
        case run(String, [String: String] = [:])
        /// Each verb exists, and its help has each option.
        case synopsis(String)
        /// Each script exists.
        case scripts(String)
        /// The block is not run: it contains no command, or the named check runs it.
        case notRun(String, _ reason: Reason)

        enum Reason: Sendable {
            case noCommand, releaseTests, installTest, radioLab, unattendedTests, hybridTests
        }

        var start: String {
            switch self {
            case .run(let start, _), .synopsis(let start), .scripts(let start), .notRun(let start, _): start
            }
        }
    }

    /// A free port for the NATS server of docs/fleet.md.
    private static let natsPort = (try? TestServer.freePorts(1).first) ?? 4222

    static let pages = [
        Page(
            name: "README.md",
            blocks: [
                .notRun("sudo apt-get install ./otaflash", .installTest), .scripts("scripts/demo"),
                .run("otaflash keygen release"),
                .run("otaflash simulate create kitchen"),
            ]),
        Page(name: "SECURITY.md", blocks: []),
        Page(name: "CONTRIBUTING.md", blocks: [.scripts("scripts/setup test"), .notRun("@Test(", .noCommand)]),
        Page(name: "docs/architecture.md", blocks: [.notRun("firmware file → SignedBundle", .noCommand)]),
        Page(
            name: "docs/bundle-format.md",
            blocks: [
                .run("otaflash keygen release"), .notRun("otaflash keygen pair", .hybridTests),
                .notRun("0000  4f544146", .noCommand),
            ]),
        Page(
            name: "docs/command-line.md",
            blocks: [
                .synopsis("otaflash keygen NAME"), .synopsis("otaflash simulate create NAME"),
                .notRun("$ cat ~/.config", .noCommand), .notRun("$ cat ~/.config", .noCommand),
                .notRun("otaflash: error [untrusted-key]:", .noCommand),
                .notRun(#"{"schema""#, .noCommand), .notRun(#"{"event""#, .noCommand),
                .synopsis("otaflash gatt services"), .notRun("pass     first-begin", .noCommand),
            ]),
        Page(
            name: "docs/device-integration.md",
            blocks: [.run("otaflash keygen release", ["head -c 16": "head -c 16 | grep -Ex '[0-9a-f]{16}'"])]),
        Page(
            name: "docs/first-device.md",
            blocks: [
                .notRun("otaflash doctor", .radioLab), .run("{ head -c 512 /dev/zero"),
                .run("otaflash push zephyr.signed.bin", ["ble:AA:BB:CC:DD:EE:FF": "'sim:?pace=virtual'"]),
            ]),
        Page(
            name: "docs/fleet.md",
            blocks: [
                .notRun("sudo apt-get install ./otaflash", .installTest),
                .run("seq 20000"), .run("for name in hall", ["sim:$name\"": "sim:$name?pace=virtual\""]),
                .run("otaflash release publish"), .run("otaflash rollout create spring"),
                .run("otaflash gateway run", ["&": "2>gateway.log & gateway=$!"]),
                .run("otaflash rollout status", ["kill %1": "kill $gateway; wait $gateway"]),
                .run("otaflash fleet devices --format json"),
                .notRun("sudo apt-get", .installTest),
                .run(
                    "otaflash fleet init --config",
                    ["--config": "--listen 127.0.0.1:\(natsPort) --config"]),
                .run(
                    "nats-server -c",
                    [
                        "nats-server -c": "/usr/sbin/nats-server -c", "nats.log &": "nats.log & server=$!",
                        "127.0.0.1:4222": "127.0.0.1:\(natsPort)",
                    ]),
                .run(
                    "otaflash keygen controller",
                    [
                        "controller.nk &": "controller.nk 2>controller.log & controller=$!",
                        "ops.pub.pem &": "ops.pub.pem 2>gateway.log & gateway=$!",
                    ]),
                .run(
                    "export OTAFLASH_FLEET_CREDENTIALS",
                    [:]),
                .run("otaflash fleet devices --gateway desk", [:]),
                .run(
                    "otaflash fleet clean",
                    ["fleet clean": "fleet clean; kill $gateway $controller; wait $gateway $controller; kill $server"]),
            ]),
        Page(
            name: "docs/key-rotation.md",
            blocks: [
                .run("otaflash keygen old"),
                .run("seq 3000 | tr 0", ["sim:$name": "sim:$name?pace=virtual", "sim:kitchen": runs("old")]),
                .run("otaflash keygen new"), .run("firmware new.pub.pem > app-1.1.0.bin"), .run("mkdir retired"),
                .run(
                    "otaflash push lamp-1.1.0.otaf --device sim:kitchen",
                    [
                        "otaf --device sim:kitchen": "otaf --device sim:kitchen?pace=virtual",
                        "status --device sim:kitchen": "status --device \(runs("new"))",
                    ]),
                .run("firmware new.pub.pem > app-1.2.0.bin", ["sim:kitchen": "sim:kitchen?pace=virtual"]),
                .run(
                    "otaflash push lamp-1.2.0.otaf --device sim:hall",
                    ["sim:hall": refused("sim:hall", "untrusted-by-device")]),
                .run("otaflash push lamp-1.1.0.otaf --device sim:hall", ["sim:hall": "sim:hall?pace=virtual"]),
                .run("otaflash sign app-1.0.0.bin", ["sim:kitchen": refused("sim:kitchen", "untrusted-key")]),
                .run(
                    "otaflash push thief.otaf --device sim:kitchen --trust",
                    ["retired/old.pub.pem": refused("retired/old.pub.pem", "untrusted-by-device")]),
            ]),
        Page(
            name: "docs/mcuboot.md",
            blocks: [
                .run("{ head -c 512 /dev/zero"), .run("otaflash keygen release"),
                .run("imgtool getpub", ["imgtool": imgtool]),
                .run("otaflash sign --as mcuboot zephyr.bin"), .run("openssl genpkey -algorithm EC"),
            ]),
        Page(name: "docs/ota-profile.md", blocks: [.notRun("Control  > 01", .noCommand)]),
        Page(
            name: "docs/performance.md",
            blocks: [
                .scripts("scripts/benchmark"), .notRun("bound =", .noCommand),
            ]),
        Page(
            name: "docs/pipelines.md",
            blocks: [
                .run("otaflash keygen release"), .run("echo \"::add-matcher::"),
                .run(
                    "export INPUT_IMAGE",
                    // Here the samples are a link out of the folder, and the step refuses it.
                    ["firmware-samples/": "$samples/", "ci/release-step": "\"$root\"/ci/release-step"]),
            ]),
        Page(
            name: "docs/provenance.md",
            setup: """
                echo '{"spdxVersion": "SPDX-2.3"}' >app.spdx.json
                export CI_JOB_URL=https://gitlab.example/acme/lamp/-/jobs/12 CI_RUNNER_ID=3
                export CI_PROJECT_URL=https://gitlab.example/acme/lamp CI_COMMIT_SHA=0123456789012345678901234567890123456789
                """,
            blocks: [
                .run("otaflash keygen release"), .run("otaflash attest firmware.otaf --key release.pem --predicate"),
                .run("otaflash verify firmware.otaf"),
            ]),
        Page(
            name: "docs/nordic-dfu.md",
            setup: """
                cp \(Repository.root)/Tests/Support/nordic-packages/*.zip .
                cp \(Repository.root)/Fuzz/Corpus/keys/ecdsa-p256-public vendor.pub.pem
                """,
            blocks: [
                .run("otaflash inspect secure.zip"), .run("otaflash keygen release"),
                .run("otaflash inspect legacy.zip.otaf"), .run("python3 -m zipfile"),
            ]),
        Page(name: "docs/radio-lab.md", blocks: [.scripts("scripts/radio-lab"), .notRun("@case", .noCommand)]),
        Page(
            name: "docs/releases.md",
            blocks: [
                .notRun("minisign -Vm", .releaseTests), .notRun("printf 'untrusted", .releaseTests),
                .notRun(#"(printf '\060"#, .releaseTests),
                .scripts("OTAFLASH_RELEASE_KEY=release-key.pem scripts/release"),
                .notRun("release: this machine", .releaseTests),
            ]),
        Page(
            name: "docs/reliability.md",
            blocks: [
                .scripts("scripts/gauntlet --worlds"), .scripts("scripts/gauntlet --commit"),
                .run(
                    "otaflash keygen release",
                    [
                        "python3 Tests": #"python3 -u "$root"/Tests"#,
                        "server.py alternating":
                            "server.py alternating >port & server=$!; until [ -s port ]; do sleep 0.1; done",
                    ]),
                .run(
                    "otaflash push fw.signed.bin",
                    ["PORT": #""$(cat port)""#, "release.pub.pem": "release.pub.pem || test $? = 75; kill $server"]),
                .notRun("# counter-not-compared", .noCommand), .scripts("scripts/test-smp-servers"),
            ]),
        Page(
            name: "docs/signing-keys.md", setup: tokenAndServices,
            blocks: [
                .run("otaflash keygen release --in", ["object=fw'": "object=fw' --pin-env PIN"]),
                .run("otaflash keygen backup --from", ["object=fw'": "object=fw' --pin-env PIN"]),
                .run("cat >kms-aws"), .run("cat >kms-gcp"), .run("cat >kms-vault"), .run("cat >kms-ssh"),
                .run(
                    "chmod +x kms-aws",
                    ["otaflash verify kms.otaf --trust": signWithEachService + "otaflash verify kms.otaf --trust"]),
                .run("cat >kms-ml-dsa"),
                .run(
                    "ssh-keygen -t ed25519",
                    [
                        "ssh-keygen -t": startAgent + "ssh-keygen -q -N '' -t", "ssh-add": "ssh-add -q",
                        "1.1.0": "1.1.0 2>listed && exit 1; id=$(grep -Eo '[0-9a-f]{16}' listed | head -n 1)",
                    ]),
                .run("otaflash keygen agent-key --from agent:", ["0123456789abcdef": "$id"]),
                .run("export SSH_AUTH_SOCK="),
                .run(
                    "otaflash sign app.bin --product",
                    ["otaflash sign": "otaflash keygen offline; otaflash keygen second; otaflash sign"]),
                .run("sha256sum fw.manifest"), .run("otaflash sign app.bin --manifest"),
                .run("otaflash sign fw.otaf --to-sign"), .notRun("otaflash keygen firm", .hybridTests),
                .run("otaflash sign app.bin --key", ["object=fw'": "object=fw' --pin-env PIN"]),
            ]),
        Page(
            name: "docs/smaller-updates.md",
            blocks: [
                .run("otaflash keygen release"),
                .run("otaflash push releases/gateway-1.1.0.otaf", ["ble:AA:BB:CC:DD:EE:FF": "'sim:?pace=virtual'"]),
                .run("otaflash inspect releases/gateway-1.1.0.otaf"),
                .notRun("Compressed", .noCommand),
                .run("otaflash inspect releases/gateway-1.1.0.otaf --base releases/gateway-1.0.0.otaf"),
                .run("otaflash simulate create gateway", ["sim:gateway": "'sim:gateway?pace=virtual'"]),
            ]),
        Page(
            name: "docs/smp.md",
            blocks: [
                .run("{ head -c 512 /dev/zero"),
                .run(
                    "otaflash push zephyr.signed.bin --device ble:",
                    [
                        "otaflash push zephyr.signed.bin --device ble:AA:BB:CC:DD:EE:FF":
                            devicesWithSMP + "otaflash push zephyr.signed.bin --device 'sim:radio?pace=virtual'",
                        "udp:192.168.1.5": "'sim:network?pace=virtual'",
                        "serial:/dev/ttyACM0": "'sim:line?pace=virtual'",
                    ]),
                .run(
                    "otaflash simulate create board",
                    [
                        "otaflash simulate serve board --udp 1337":
                            "otaflash simulate serve board --udp 0 2>served & "
                            + "until grep -q udp: served; do sleep 0.1; done; kill $!; wait $!"
                    ]
                ),
                .run(
                    "otaflash push zephyr.signed.bin --device 'serial:",
                    ["serial:/dev/ttyACM0?framing=raw&baud=1000000": "sim:line?pace=virtual"]),
                .run(
                    "otaflash push zephyr.signed.bin --device serial:",
                    ["serial:/dev/ttyACM0": "'sim:recovery?pace=virtual'"]),
                .run(
                    "otaflash push zephyr.signed.bin --device ble:",
                    [
                        "otaflash push zephyr.signed.bin --device ble:AA:BB:CC:DD:EE:FF":
                            "otaflash simulate create small --protocol smp --product nrf52840dk --version 1.0.0 "
                            + "--without second-slot\notaflash push zephyr.signed.bin --device 'sim:small?pace=virtual'"
                    ]),
                .notRun("window × image bytes", .noCommand), .run("otaflash simulate create slow"),
            ]),
        Page(
            name: "docs/unattended.md",
            blocks: [
                .notRun("sudo adduser", .unattendedTests), .notRun("systemd-analyze verify", .unattendedTests),
                .notRun("sudo install -d -o otaflash", .unattendedTests),
            ]),
    ]

    /// The end of a command `status --device` that fails unless the device `kitchen` trusts exactly one key, this one.
    private static func runs(_ key: String) -> String {
        """
        sim:kitchen --format json | jq --exit-status \
            --arg id "$(otaflash inspect \(key).pub.pem --format json | jq --raw-output .key.key_id)" '.device.keys == [$id]'
        """
    }

    /// The end of a command that must fail with this error code. `end` is the last word of the command.
    private static func refused(_ end: String, _ code: String) -> String {
        #"\#(end) --format json | jq --exit-status '.error.code == "\#(code)"'"#
    }

    /// The imgtool that scripts/setup installs.
    private static let imgtool = FilePath(PythonEnvironment.python).removingLastComponent().appending("imgtool").string

    /// Creates the virtual devices in place of the devices of docs/smp.md.
    private static let devicesWithSMP = """
        for device in radio network line; do
            otaflash simulate create $device --protocol smp --product nrf52840dk --version 1.0.0
        done
        otaflash simulate create recovery --protocol smp --product nrf52840dk --version 1.0.0 --without marks

        """

    /// Makes a token, and programs in place of the tools of cloud services. The programs accept only the documented arguments. Their
    /// answers have the encodings of the real tools.
    private static let tokenAndServices = #"""
        mkdir tokens bin
        echo "directories.tokendir = $PWD/tokens" >softhsm2.conf
        export SOFTHSM2_CONF=$PWD/softhsm2.conf PIN=1234 PATH=$PWD/bin:$PATH
        # A leak of softhsm2 (Sandbox+Token.swift).
        export LSAN_OPTIONS=detect_leaks=0
        softhsm2-util --init-token --free --label release --so-pin 12345678 --pin 1234 >/dev/null
        { printf "\\200"; head -c 5000 /dev/urandom; } >app.bin
        openssl genpkey -algorithm ed25519 -out bin/release.pem
        openssl pkey -in bin/release.pem -pubout -out bin/release.pub.pem
        cat >bin/key <<'END'
        #!/bin/sh
        cd "$(dirname "$0")"
        case $1 in
        pem) cat release.pub.pem ;;
        der) openssl pkey -in release.pem -pubout -outform DER ;;
        sign) cat >m; openssl pkeyutl -sign -rawin -inkey release.pem -in m ;;
        esac
        END
        cat >bin/aws <<'END'
        #!/bin/sh
        sign='--key-id alias/firmware --signing-algorithm ED25519_SHA_512 --message-type RAW'
        case $* in
        'kms get-public-key --key-id alias/firmware --query PublicKey --output text') key der | base64 -w 0 ;;
        "kms sign $sign --message fileb:///dev/stdin --query Signature --output text")
            key sign </dev/stdin | base64 -w 0; echo ;;
        *) exit 252 ;;
        esac
        END
        cat >bin/gcloud <<'END'
        #!/bin/sh
        key='--key firmware --keyring release --location global'
        case $* in
        "kms keys versions get-public-key 1 $key") key pem ;;
        "kms asymmetric-sign --version 1 $key --input-file - --signature-file -") key sign | base64 -w 0 ;;
        *) exit 2 ;;
        esac
        END
        cat >bin/vault <<'END'
        #!/bin/sh
        case $* in
        'read -format=json transit/keys/firmware')
            printf '{"data":{"keys":{"1":{"public_key":"%s"}}}}' "$(key der | tail -c 32 | base64)" ;;
        'write -field=signature transit/sign/firmware key_version=1 input='*)
            echo "vault:v1:$(echo "${5#input=}" | base64 -d | key sign | base64 -w 0)" ;;
        *) exit 2 ;;
        esac
        END
        cat >bin/ssh <<'END'
        #!/bin/sh
        [ "$1" = signer@signer.example ] || exit 255
        shift
        cd "$(dirname "$0")" && sh -c "$*"
        END
        chmod +x bin/*

        """#

    /// Starts an SSH agent that ends with the shell.
    private static let startAgent = """
        eval "$(ssh-agent -a "$PWD/agent")" >/dev/null
        trap "kill $SSH_AGENT_PID" EXIT

        """

    /// Signs with the programs of the page that the page itself does not run.
    private static let signWithEachService = """
        chmod +x kms-*
        for service in gcp vault ssh; do
            otaflash sign app.bin --key exec:./kms-$service --product demo --version 1.2.0 -o $service.otaf
            otaflash verify $service.otaf --trust firmware.pub.pem
        done

        """

    private static let root = URL(filePath: Repository.root.string, directoryHint: .isDirectory)

    @Test("every command block of a page runs as it is written", arguments: pages)
    func blocksRun(page: Page) async throws {
        let found = try Self.blocks(of: page.name)
        #expect(found.count == page.blocks.count, "the page has other blocks than its entry in this file")
        let sandbox = try Sandbox()
        let root = Self.root.path(percentEncoded: false)
        var script = """
            set -eu
            trap 'exit=$?; [ $exit = 0 ] || tail -n 40 *.log >&2 || :; exit $exit' EXIT
            PATH=$(dirname "$0"):$PATH root=\(root) samples=\(root)/firmware-samples
            ln -s "$samples" firmware-samples
            \(page.setup)

            """
        for (lines, block) in zip(found, page.blocks) {
            #expect(lines.first?.hasPrefix(block.start) == true, "unexpected block: \(lines.first ?? "")")
            switch block {
            case .run(_, let replacements):
                var text = lines.joined(separator: "\n")
                for (old, new) in replacements {
                    #expect(text.contains(old), "\(block.start): nothing to replace: \(old)")
                    text = text.replacing(old, with: new)
                }
                script += text + "\n"
            case .synopsis: try await checkSynopsis(lines, sandbox)
            case .scripts:
                for word in lines.flatMap({ $0.split(separator: " ") }) where word.hasPrefix("scripts/") {
                    #expect(FileManager.default.isExecutableFile(atPath: "\(root)/\(word)"), "\(word) is missing")
                }
            case .notRun: break
            }
        }
        let run = try await sandbox.shell(script)
        #expect(run.exit == 0, "\(script)\n\(run.out)\n\(run.err)")
    }

    @Test("every page has an entry")
    func pagesAreComplete() throws {
        let docs = try FileManager.default.contentsOfDirectory(atPath: Self.root.appending(path: "docs").path)
        let names =
            ["README.md", "SECURITY.md", "CONTRIBUTING.md"] + docs.filter { $0.hasSuffix(".md") }.map { "docs/\($0)" }
        let withBlocks = try names.filter { try !Self.blocks(of: $0).isEmpty }
        #expect(Set(withBlocks).isSubset(of: Self.pages.map(\.name)))
    }

    /// Requires each verb of a synopsis, and each of its options in the help of the verb.
    private func checkSynopsis(_ lines: [String], _ sandbox: Sandbox) async throws {
        var help = ""
        for line in lines {
            let words = line.split(whereSeparator: { " []".contains($0) }).map(String.init)
            if words.first == "otaflash" {
                let group = ["simulate", "gatt"].contains(words[1]) ? [words[1]] : []
                let described = line.split(separator: "  ", omittingEmptySubsequences: true)[0]
                let alternatives = described.split(separator: "|").map { $0.split(separator: " ").map(String.init) }
                help = ""
                for (index, alternative) in alternatives.enumerated() where !alternative[0].hasPrefix("-") {
                    let verb = index == 0 ? alternative[1 + group.count] : alternative[0]
                    let run = try await sandbox.run(group + [verb, "--help"])
                    #expect(run.exit == 0, "\(group) \(verb)")
                    help += run.out
                }
            }
            for option in words where option.hasPrefix("--") {
                #expect(help.contains(option), "\(line): no such option: \(option)")
            }
        }
    }

    /// The indented blocks of a page that are not in a fenced block, without their indentation.
    static func blocks(of page: String) throws -> [[String]] {
        let text = try String(contentsOf: root.appending(path: page), encoding: .utf8)
        var blocks: [[String]] = []
        var isFenced = false
        var isInBlock = false
        var previous = ""
        for line in text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init) {
            if line.hasPrefix("```") { isFenced.toggle() }
            let isIndented = line.hasPrefix("    ") && !isFenced
            if isIndented, previous.isEmpty {
                blocks.append([])
                isInBlock = true
            }
            isInBlock = isInBlock && isIndented
            if isInBlock { blocks[blocks.count - 1].append(String(line.dropFirst(4))) }
            previous = line
        }
        return blocks
    }
}
