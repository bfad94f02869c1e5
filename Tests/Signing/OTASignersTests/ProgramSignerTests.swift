import FoundationEssentials
import Glibc
import OTAFirmware
import OTASigners
import OTASigning
import OTATestSupport
import OTAUpdate
import Testing

/// A shell script as a signer, with a key of openssl.
private final class Script {
    let folder: String
    var path: String { folder + "/kms" }

    /// - Parameters:
    ///   - sign: the shell commands for `sign`. The file `key.pem` is the private key.
    ///   - publicKey: the shell commands for `public-key`.
    init(sign: String, publicKey: String = "openssl pkey -in key.pem -pubout") async throws {
        var template = Array("/tmp/otaflash-signers-XXXXXX".utf8CString)
        folder = try #require(
            template.withUnsafeMutableBufferPointer {
                $0.baseAddress.flatMap { mkdtemp($0) }.map { String(cString: $0) }
            })
        let key = try await Command.run("openssl", ["genpkey", "-algorithm", "ed25519", "-out", folder + "/key.pem"])
        try #require(key.succeeded)
        try await write(
            """
            #!/bin/sh
            cd '\(folder)' || exit 99
            [ "$OTAFLASH_SIGNER" = 1 ] || exit 98
            case $1 in
            public-key) \(publicKey) ;;
            sign) \(sign) ;;
            *) exit 97 ;;
            esac
            """)
    }

    /// Writes the script in another process. A process that another test starts can inherit the descriptor of a file that this process
    /// writes. The file is then busy and cannot be executed.
    private func write(_ text: String) async throws {
        let written = try await Command.run(
            "sh", ["-c", "cat >\"$1\" && chmod 700 \"$1\"", "sh", path], input: Array(text.utf8))
        try #require(written.succeeded)
    }

    deinit { try? FileManager.default.removeItem(atPath: folder) }
}

@Suite("Signing with a program", .serialized) struct ProgramSignerTests {
    private static let openssl = "openssl pkeyutl -sign -rawin -inkey key.pem -in"
    private static let message = Array("message".utf8)

    @Test(
        "a program signs with raw bytes, Base64 or hex digits, from a pipe, a file or /dev/stdin",
        arguments: [
            "\(openssl) /dev/stdin", "cat >m; \(openssl) m", "\(openssl) /dev/stdin | base64 -w 0",
            "\(openssl) /dev/stdin | base64 -w 20",
            "\(openssl) /dev/stdin | od -An -vtx1",
            "\(openssl) /dev/stdin | od -An -vtx1 | tr a-f A-F | tr '\\n' '\\r'",
            // A process of the script holds the output open after the end of the script.
            "sleep 30 & \(openssl) /dev/stdin",
        ])
    func signs(command: String) async throws {
        let script = try await Script(sign: command)
        let signer = try ProgramSigner(script.path)
        let signature = try signer.sign(Self.message)
        #expect(try signer.publicKey.verify(signature: signature, message: Self.message))
    }

    @Test("a program gets a message of a megabyte")
    func longMessage() async throws {
        let script = try await Script(sign: "cat >m; \(Self.openssl) m")
        var random = SplitMix64(seed: 1)
        let message = random.bytes(1 << 20)
        let signer = try ProgramSigner(script.path)
        #expect(try signer.publicKey.verify(signature: try signer.sign(message), message: message))
    }

    @Test(
        "a program that fails or prints no signature is refused with the reason",
        arguments: [
            ("exit 3", KeyError.Code.signerFailed, "ended with exit status 3"),
            ("\(openssl) /dev/stdin; exit 1", .signerFailed, "ended with exit status 1"),
            ("kill -KILL $$", .signerFailed, "ended by signal 9"),
            (":", .signerProtocol, "printed 0 bytes"),
            ("head -c 63 /dev/zero", .signerProtocol, "printed 63 bytes"),
            ("head -c 65 /dev/zero", .signerProtocol, "printed 65 bytes"),
            ("\(openssl) /dev/stdin; echo", .signerProtocol, "printed 65 bytes"),
            ("\(openssl) /dev/stdin | base64 -w 0 | tr -d =", .signerProtocol, "printed 86 bytes"),
            ("\(openssl) /dev/stdin | base64 -w 0; echo x", .signerProtocol, "printed 90 bytes"),
            ("head -c 128 /dev/zero | tr '\\0' g", .signerProtocol, "printed 128 bytes"),
            ("head -c 1000000 /dev/zero", .signerProtocol, "printed more than 65536 bytes"),
            ("exec yes", .signerProtocol, "printed more than 65536 bytes"),
        ])
    func fails(command: String, code: KeyError.Code, reason: String) async throws {
        let script = try await Script(sign: command)
        let signer = try ProgramSigner(script.path)
        let error = #expect(throws: KeyError(code, "")) { try signer.sign(Self.message) }
        #expect(error?.context.hasPrefix("exec:\(script.path) sign ") == true, "\(error?.context ?? "")")
        #expect(error?.context.contains(reason) == true, "\(error?.context ?? "")")
    }

    @Test(
        "a program without a usable public key is refused with the reason",
        arguments: [
            ("true", KeyError.Code.signerProtocol, "no PEM block"), ("cat key.pem", .signerProtocol, "a private key"),
            ("exit 254", .signerFailed, "exit status 254"),
            ("openssl genpkey -algorithm ed448 | openssl pkey -pubout", .wrongAlgorithm, "ED448"),
            (
                "openssl ecparam -name prime256v1 -genkey -noout | openssl pkey -pubout", .wrongAlgorithm,
                "expected Ed25519"
            ),
        ])
    func hasNoPublicKey(command: String, code: KeyError.Code, reason: String) async throws {
        let script = try await Script(sign: "exit 96", publicKey: command)
        let error = #expect(throws: KeyError(code, "")) { try ProgramSigner(script.path) }
        #expect(error?.context.contains(reason) == true, "\(error?.context ?? "")")
    }

    @Test(
        "a program that does not end is killed at the time limit",
        arguments: ["exec sleep 1000", "exec >&-; exec sleep 1000"])
    func hangs(command: String) async throws {
        let script = try await Script(sign: "echo $$ >pid; \(command)")
        let signer = try ProgramSigner(script.path, limit: .seconds(2))
        let error = #expect(throws: KeyError(.signerFailed, "")) { try signer.sign(Self.message) }
        #expect(error?.context.hasSuffix("did not end within 2 s") == true, "\(error?.context ?? "")")
        let process = try String(contentsOfFile: script.folder + "/pid", encoding: .utf8)
        #expect(kill(Int32(process.filter { !$0.isWhitespace }) ?? 0, 0) == -1 && errno == ESRCH)
    }

    @Test(
        "a program that cannot be started is refused", arguments: ["/nonexistent", "/etc/passwd", "/", "", "kms sign"])
    func cannotStart(program: String) {
        let error = #expect(throws: KeyError(.signerFailed, "")) { try ProgramSigner(program) }
        #expect(error?.context.contains("cannot be started") == true && error?.hint?.contains("chmod +x") == true)
    }
}
