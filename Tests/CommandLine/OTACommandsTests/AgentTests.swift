import FoundationEssentials
import Glibc
import OTAFirmware
import OTASigners
import OTASigning
import OTATestSupport
import SystemPackage
import Testing

/// `sign --key agent:` with OpenSSH's ssh-agent, with gpg-agent, and with a program that answers as no agent does.
@Suite("Keys in an SSH agent") struct AgentTests {
    /// Starts ssh-agent, which ends with the script, and runs the lines.
    /// An agent removes its socket some time after the signal. So each agent has its own path: the number of the shell is part of it.
    private static func withAgent(_ lines: String) -> String {
        """
        set -e
        eval "$(ssh-agent -a "$PWD/agent.$$")" >/dev/null
        trap 'kill $SSH_AGENT_PID' EXIT
        \(lines)
        """
    }

    private static let sign = #""$0" sign fw.bin --product demo --version 1.1.0 --format json"#

    /// Makes `fw.bin` and the key pair `release`, with the private key also in OpenSSH's format: `ssh`.
    private func sandbox() async throws -> Sandbox {
        let sandbox = try Sandbox()
        try sandbox.write("fw.bin", Sandbox.image(2000))
        #expect(try await sandbox.run("keygen", "release").exit == 0)
        let der = try await sandbox.openssl("pkey", "-in", "release.pem", "-outform", "DER")
        let publicKey = try await sandbox.openssl("pkey", "-in", "release.pem", "-pubout", "-outform", "DER").suffix(32)
        try sandbox.write("ssh", Array(Self.openSSHKey(seed: Array(der.suffix(32)), Array(publicKey)).utf8))
        chmod(sandbox.path("ssh"), 0o600)
        return sandbox
    }

    /// Returns a private key in OpenSSH's own format (OpenSSH, PROTOCOL.key), without encryption. ssh-add cannot read PKCS#8 with Ed25519.
    private static func openSSHKey(seed: [UInt8], _ publicKey: [UInt8]) -> String {
        func string(_ bytes: [UInt8]) -> [UInt8] { number(UInt32(bytes.count)) + bytes }
        func number(_ value: UInt32) -> [UInt8] { withUnsafeBytes(of: value.bigEndian) { Array($0) } }
        let type = string(Array("ssh-ed25519".utf8))
        let secret =
            number(7) + number(7) + type + string(publicKey) + string(seed + publicKey)
            + string(Array("release key".utf8))
        let padding = (0..<(8 - secret.count % 8) % 8).map { UInt8($0 + 1) }
        let none = string(Array("none".utf8))
        let file =
            Array("openssh-key-v1\0".utf8) + none + none + string([]) + number(1) + string(type + string(publicKey))
            + string(secret + padding)
        let text = Data(file).base64EncodedString(options: [.lineLength64Characters, .endLineWithLineFeed])
        return "-----BEGIN OPENSSH PRIVATE KEY-----\n\(text)\n-----END OPENSSH PRIVATE KEY-----\n"
    }

    private func keyID(_ sandbox: Sandbox) async throws -> String {
        let json = try await sandbox.run("inspect", "release.pub.pem", "--format", "json").json()
        return try #require(json.key?.key_id?.string)
    }

    private func code(_ run: Run) throws -> String? { try run.json().error?.code?.string }

    @Test("ssh-agent signs the same bundle and the same MCUboot images as the key in a file")
    func sameAsTheFile() async throws {
        let sandbox = try await sandbox()
        let id = try await keyID(sandbox)
        let script = Self.withAgent(
            """
            export SOURCE_DATE_EPOCH=1767225600
            ssh-add -q ssh
            number=0
            for key in release.pem agent:\(id) agent:release.pub.pem; do
                number=$((number + 1))
                "$0" sign fw.bin --product demo --version 1.1.0 --key $key -o $number.otaf
                cmp 1.otaf $number.otaf
                for scheme in '--sha 256' '--sha 512' --pure; do
                    "$0" sign fw.bin --as mcuboot --version 1.4.0 --header-size 32 --pad-header $scheme --key $key \
                        -o "$number $scheme"
                    cmp "1 $scheme" "$number $scheme"
                done
            done
            "$0" keygen copy --from agent:\(id)
            cmp copy.pub.pem release.pub.pem
            """)
        let run = try await sandbox.shell(script)
        #expect(run.exit == 0, "\(run.err)")
    }

    @Test("gpg-agent signs with its Ed25519 key")
    func gpgAgent() async throws {
        let sandbox = try await sandbox()
        let run = try await sandbox.shell(
            """
            set -e
            export GNUPGHOME=$PWD/gnupg
            mkdir -m 700 gnupg
            echo enable-ssh-support >gnupg/gpg-agent.conf
            trap 'gpgconf --kill gpg-agent' EXIT
            gpg --batch --quiet --pinentry-mode loopback --passphrase '' --quick-generate-key test ed25519 sign 0
            gpg --batch --with-colons --with-keygrip --list-keys | awk -F: '$1 == "grp" { print $10 }' >gnupg/sshcontrol
            export SSH_AUTH_SOCK=$(gpgconf --list-dirs agent-ssh-socket)
            id=$("$0" keygen gpg --from agent: 2>&1 | grep -Eo '[0-9a-f]{16}' | head -n 1)
            "$0" keygen gpg --from agent:$id
            "$0" sign fw.bin --product demo --version 1.1.0 --key agent:$id
            "$0" verify fw.bin.otaf --trust gpg.pub.pem
            """)
        #expect(run.exit == 0 && run.out.contains("is verified"), "\(run.err)")
    }

    @Test("without SSH_AUTH_SOCK, or without an agent at its path, sign refuses with no-agent")
    func noAgent() async throws {
        let sandbox = try await sandbox()
        let long = String(repeating: "x", count: 200)
        for path in [nil, "", sandbox.path("none"), sandbox.path("fw.bin"), sandbox.path("fw.bin/x"), long] {
            let env = path.map { ["SSH_AUTH_SOCK": $0] } ?? [:]
            let run = try await sandbox.run(
                "sign", "fw.bin", "--key", "agent:0123456789abcdef", "--product", "demo", "--version", "1.0.0",
                "--format",
                "json", env: env)
            #expect(try run.exit == 69 && code(run) == "no-agent", "\(path ?? "unset"): \(run.err)")
        }
    }

    @Test("a key that the agent does not have is refused, and the message lists the agent's Ed25519 keys")
    func noSuchKey() async throws {
        let sandbox = try await sandbox()
        let id = try await keyID(sandbox)
        #expect(try await sandbox.run("keygen", "other").exit == 0)
        let empty = try await sandbox.shell(Self.withAgent("\(Self.sign) --key agent:\(id)"))
        #expect(try empty.exit == 66 && code(empty) == "no-such-key" && empty.err.contains("ssh-add"))
        for key in ["0123456789abcdef", "other.pub.pem", ""] {
            let run = try await sandbox.shell(
                Self.withAgent(
                    """
                    ssh-keygen -q -t rsa -b 2048 -N '' -f rsa
                    ssh-add -q ssh rsa
                    \(Self.sign) --key agent:\(key)
                    """))
            #expect(try run.exit == 66 && code(run) == "no-such-key", "\(run.err)")
            #expect(run.err.contains("the agent has: \(id) (release key)") && run.err.contains("agent:\(id)"))
            unlink(sandbox.path("rsa"))
        }
        let locked = try await sandbox.shell(
            Self.withAgent(
                """
                ssh-add -q ssh
                printf '#!/bin/sh\necho secret\n' >askpass && chmod +x askpass
                SSH_ASKPASS=./askpass SSH_ASKPASS_REQUIRE=force ssh-add -x >/dev/null
                \(Self.sign) --key agent:\(id)
                """))
        #expect(try locked.exit == 66 && code(locked) == "no-such-key" && locked.err.contains("ssh-add -X"))
    }

    @Test("a file that is not an Ed25519 public key is refused, and the hint names the forms of agent:")
    func notAPublicKey() async throws {
        let sandbox = try await sandbox()
        try await sandbox.openssl("genpkey", "-quiet", "-algorithm", "RSA", "-out", "rsa.pem")
        try await sandbox.openssl("pkey", "-in", "rsa.pem", "-pubout", "-out", "rsa.pub.pem")
        let cases = [
            ("none", "no-such-file"), ("ssh", "not-a-key"), ("release.pem", "not-a-key"),
            ("rsa.pub.pem", "wrong-algorithm"),
        ]
        for (file, expected) in cases {
            let run = try await sandbox.shell(Self.withAgent("\(Self.sign) --key agent:\(file)"))
            #expect(try code(run) == expected && !sandbox.exists("fw.bin.otaf"), "\(run.err)")
        }
    }

    @Test("if the user does not confirm the signature, sign refuses with signer-refused and writes nothing")
    func refused() async throws {
        let sandbox = try await sandbox()
        let id = try await keyID(sandbox)
        let run = try await sandbox.shell(
            "export SSH_ASKPASS=/bin/false\n" + Self.withAgent("ssh-add -q -c ssh\n\(Self.sign) --key agent:\(id)"))
        #expect(try run.exit == 77 && code(run) == "signer-refused" && !sandbox.exists("fw.bin.otaf"), "\(run.err)")
        let large = try await sandbox.shell(
            Self.withAgent(
                """
                ssh-add -q ssh
                { head -c 32 /dev/zero; seq 70000 | tr 0 '\\0'; } | head -c 300000 >large
                "$0" sign large --as mcuboot --version 1.0.0 --header-size 32 --pure --key agent:\(id) --format json
                """))
        #expect(try large.exit == 77 && code(large) == "signer-refused" && large.err.contains("--pure"), "\(large.err)")
    }

    /// An answer of an agent, as hex digits: the length, the type, and the rest.
    private static func answer(_ type: UInt8, _ rest: [UInt8] = [], extra: UInt32 = 0) -> String {
        let length = withUnsafeBytes(of: (UInt32(rest.count + 1) + extra).bigEndian) { Array($0) }
        return Hex.encode(length + [type] + rest)
    }

    @Test(
        "an answer that violates the protocol is refused with signer-protocol",
        arguments: [
            "", "00", "00000000", "ffffffff", "0004000100", answer(12), answer(12, [0, 0, 0, 1]), answer(13),
            answer(12, [0, 0, 0, 0, 0]), answer(12, [0, 0, 0, 0], extra: 1), answer(12, [0xFF, 0xFF, 0xFF, 0xFF]),
            answer(12, [0, 0, 0, 1, 0xFF, 0xFF, 0xFF, 0xFF]), answer(12, [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]),
            answer(12, [0, 0, 0, 1, 0, 0, 0, 15, 0, 0, 0, 11] + Array("ssh-ed25519".utf8) + [0, 0, 0, 0]),
        ])
    func malformedAnswers(answer: String) async throws {
        let sandbox = try Sandbox()
        try sandbox.write("fw.bin", Sandbox.image(100))
        let run = try await fakeAgent(sandbox, answer, "\(Self.sign) --key agent:0123456789abcdef")
        #expect(try run.exit == 76 && code(run) == "signer-protocol", "\(run.err)")
    }

    @Test("an agent that does not list its keys is refused with signer-refused")
    func noList() async throws {
        let sandbox = try Sandbox()
        try sandbox.write("fw.bin", Sandbox.image(100))
        let run = try await fakeAgent(sandbox, Self.answer(5), "\(Self.sign) --key agent:0123456789abcdef")
        #expect(try run.exit == 77 && code(run) == "signer-refused", "\(run.err)")
    }

    /// Runs a line with `fake_agent.py` as the agent.
    private func fakeAgent(_ sandbox: Sandbox, _ answer: String, _ line: String) async throws -> Run {
        let program = FilePath(#filePath).removingLastComponent().appending("Support/fake_agent.py").string
        return try await sandbox.shell(
            """
            python3 '\(program)' "$PWD/agent" '\(answer)' &
            trap "kill $!" EXIT
            until [ -S agent ]; do sleep 0.01; done
            export SSH_AUTH_SOCK=$PWD/agent
            \(line)
            """)
    }

    @Test("an agent that does not answer is given up after the time limit, with signer-failed")
    func timeLimit() throws {
        let sandbox = try Sandbox()
        // A listening socket that no process serves: connect succeeds, and no answer arrives.
        let server = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        defer { close(server) }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: sandbox.path("agent").utf8) }
        let status = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(server, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        try #require(status == 0 && listen(server, 1) == 0)
        let agent = try SSHAgent(at: sandbox.path("agent"), listLimit: .milliseconds(50))
        // The first connections wait in the queue of the socket, and the last one finds it full.
        for _ in 0..<4 {
            do {
                _ = try AgentSigner("0123456789abcdef", in: agent)
                Issue.record("a key without an answer")
            } catch {
                #expect(error.code == .signerFailed, "\(error.context)")
            }
        }
    }
}
