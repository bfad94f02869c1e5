import OTAFirmware
import OTATestSupport
import SystemPackage
import Testing

extension Sandbox {
    static let softHSM = "/usr/lib/softhsm/libsofthsm2.so"
    static let pin = "user pin 8841"

    /// The environment of a command that uses the tokens of this sandbox.
    ///
    /// - Parameter module: the PKCS#11 module; nil: p11-kit's proxy, which finds softhsm2 among the registered modules.
    func tokens(module: String? = softHSM) -> [String: String] {
        var variables = ["SOFTHSM2_CONF": path("softhsm2.conf"), "PIN": Self.pin]
        variables["OTAFLASH_PKCS11_MODULE"] = module
        // softhsm2 2.6.1 does not free the name of a key's curve (37 bytes). The leak sanitizer does not see that the memory is from
        // softhsm2, because the stack of the allocation ends in libcrypto.
        variables["LSAN_OPTIONS"] = "detect_leaks=0"
        return variables
    }

    /// Makes a softhsm2 token of this sandbox.
    func makeToken(_ label: String = "release", pin: String = pin) async throws {
        if !exists("tokens") {
            try makeFolder("tokens")
            try write("softhsm2.conf", Array("directories.tokendir = \(path("tokens"))\n".utf8))
        }
        try await softhsm("--init-token", "--free", "--label", label, "--so-pin", "so pin 8842", "--pin", pin)
    }

    /// Imports a private key in PKCS#8 as the key `object`.
    func importKey(_ file: String, as object: String = "fw", id: String = "01", token: String = "release") async throws
    {
        try await softhsm(
            "--import", path(file), "--token", token, "--label", object, "--id", id, "--pin", Self.pin)
    }

    /// Makes a key pair with OpenSC's pkcs11-tool.
    func makeKey(_ options: String..., token: String = "release") async throws {
        try await pkcs11Tool(["--keypairgen"] + options, token: token)
    }

    func pkcs11Tool(_ options: [String], token: String = "release") async throws {
        try await tool(
            "pkcs11-tool",
            ["--module", Self.softHSM, "--login", "--pin", Self.pin, "--token-label", token] + options)
    }

    private func softhsm(_ arguments: String...) async throws { try await tool("softhsm2-util", arguments) }

    private func tool(_ name: String, _ arguments: [String]) async throws {
        let command = try await Command.run(name, arguments, environment: environment(tokens()), in: folder)
        try #require(command.succeeded, "\(arguments): \(command.errorText)\(command.outputText)")
    }

    /// The RFC 8032 key of docs/bundle-format.md in PKCS#8, as `rfc8032.pem`.
    func writeRFC8032Key() async throws {
        let seed = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
        try write("rfc8032.der", try #require(Hex.decode("302e020100300506032b657004220420" + seed)))
        try await openssl(
            "pkey", "-inform", "DER", "-in", path("rfc8032.der"), "-out", path("rfc8032.pem"))
    }

    /// Compiles the module of Support/fake_token.c and returns its path.
    func makeFakeModule() async throws -> String {
        let source = FilePath(#filePath).removingLastComponent().appending("fake_token.c").string
        let gcc = try await Command.run(
            "gcc", ["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", path("fake.so"), source])
        try #require(gcc.succeeded, "\(gcc.errorText)")
        return path("fake.so")
    }
}
