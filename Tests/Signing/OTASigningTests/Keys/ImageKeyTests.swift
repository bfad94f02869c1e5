import OTAFirmware
import OTASigning
import OTATestSupport
import SystemPackage
import Testing

@Suite("Keys of MCUboot images") struct ImageKeyTests {
    private func publicKey(_ pem: [UInt8]) throws -> ImagePublicKey {
        try ImagePublicKey(pem: SecretBytes(copying: pem))
    }

    private func privateKey(_ pem: [UInt8], _ passphrase: String? = nil) throws -> ImagePrivateKey {
        try ImagePrivateKey(pem: SecretBytes(copying: pem), passphrase: passphrase.map { try Passphrase($0) })
    }

    @Test(
        "the same key is read from PKCS#8, encrypted PKCS#8 and the older formats", arguments: ["ec:P-256", "rsa:2048"])
    func formatsOfAPrivateKey(name: String) async throws {
        let pair = try await OpenSSLKeys.pair(name)
        let key = try publicKey(pair.publicKey)
        #expect(try privateKey(pair.privateKey).publicKey == key)
        let sealed = try await OpenSSLCommand.run(
            "pkcs8", "-topk8", "-passout", "pass:secret", input: pair.privateKey)
        #expect(try privateKey(sealed, "secret").publicKey == key)
        #expect(throws: KeyError(.wrongPassphrase, "")) { try privateKey(sealed, "other") }
        #expect(throws: KeyError(.passphraseRequired, "")) { try privateKey(sealed) }
        let old = try await OpenSSLCommand.run("pkey", "-traditional", input: pair.privateKey)
        #expect(
            String(decoding: old, as: UTF8.self).hasPrefix(
                "-----BEGIN \(name == "rsa:2048" ? "RSA" : "EC") PRIVATE KEY"))
        #expect(try privateKey(old).publicKey == key)
        let oldSealed = try await OpenSSLCommand.run(
            "pkey", "-traditional", "-aes256", "-passout", "pass:secret", input: pair.privateKey)
        let error = #expect(throws: KeyError(.notAKey, "")) { try privateKey(oldSealed, "secret") }
        #expect(error?.hint?.contains("openssl pkcs8 -topk8") == true)
    }

    @Test(
        "a key of another algorithm, curve or length is refused, and the error names it",
        arguments: [
            ("ec:P-384", "P-384"), ("ec:P-521", "P-521"), ("ec:P-224", "P-224"), ("ec:secp256k1", "secp256k1"),
            ("rsa:1024", "RSA-1024"), ("rsa:2047", "RSA-2047"), ("rsa:4096", "RSA-4096"), ("X25519", "X25519"),
            ("ED448", "ED448"),
        ])
    func otherAlgorithms(name: String, found: String) async throws {
        let pair = try await OpenSSLKeys.pair(name)
        let publicError = #expect(throws: KeyError(.wrongAlgorithm, "")) { try publicKey(pair.publicKey) }
        #expect(publicError?.context.contains(found) == true, "\(publicError?.context ?? "")")
        #expect(publicError?.context.contains("expected Ed25519, ECDSA P-256, RSA-2048 or RSA-3072") == true)
        let privateError = #expect(throws: KeyError(.wrongAlgorithm, "")) { try privateKey(pair.privateKey) }
        #expect(privateError?.context.contains(found) == true, "\(privateError?.context ?? "")")
    }

    @Test("an RSA key restricted to PSS is refused")
    func rsaForPSSOnly() async throws {
        let key = try await OpenSSLCommand.run(
            "genpkey", "-quiet", "-algorithm", "RSA-PSS", "-pkeyopt", "rsa_keygen_bits:2048")
        let pub = try await OpenSSLCommand.run("pkey", "-pubout", input: key)
        #expect(throws: KeyError(.wrongAlgorithm, "")) { try publicKey(pub) }
        #expect(throws: KeyError(.wrongAlgorithm, "")) { try privateKey(key) }
    }

    @Test("an RSA key with the public exponent 3 is refused, and 65539 is accepted")
    func publicExponents() async throws {
        for (exponent, isAccepted) in [(3, false), (65537, true), (65539, true)] {
            let pair = try await OpenSSLKeys.pair("rsa:2048", ["-pkeyopt", "rsa_keygen_pubexp:\(exponent)"])
            guard !isAccepted else {
                #expect(try publicKey(pair.publicKey).algorithm == .rsa2048)
                continue
            }
            let error = #expect(throws: KeyError(.notAKey, "")) { try publicKey(pair.publicKey) }
            #expect(error?.context.contains("exponent") == true)
            #expect(throws: KeyError(.notAKey, "")) { try privateKey(pair.privateKey) }
        }
    }

    @Test("an even public exponent is refused")
    func anEvenExponent() async throws {
        let info = try publicKey(try await OpenSSLKeys.pair("rsa:2048").publicKey).subjectPublicKeyInfo
        // The last three bytes are the exponent 65537.
        #expect(info.suffix(5) == [2, 3, 1, 0, 1])
        #expect(throws: KeyError(.notAKey, "")) { try ImagePublicKey(subjectPublicKeyInfo: info.dropLast() + [0]) }
        #expect(try ImagePublicKey(subjectPublicKeyInfo: info.dropLast() + [3]).algorithm == .rsa2048)
    }

    @Test("a P-256 key as a compressed point or with explicit parameters is refused")
    func otherEncodingsOfP256() async throws {
        let pair = try await OpenSSLKeys.pair("ec:P-256")
        let compressed = try await OpenSSLCommand.run(
            "pkey", "-pubin", "-ec_conv_form", "compressed", "-pubout", input: pair.publicKey)
        let error = #expect(throws: KeyError(.notAKey, "")) { try publicKey(compressed) }
        #expect(error?.hint?.contains("-ec_conv_form uncompressed") == true)
        let explicit = try await OpenSSLCommand.run(
            "pkey", "-pubin", "-ec_param_enc", "explicit", "-pubout", input: pair.publicKey)
        #expect(throws: KeyError(.wrongAlgorithm, "")) { try publicKey(explicit) }
    }

    @Test("a P-256 public key that is not a point of the curve is refused")
    func aPointOutsideTheCurve() async throws {
        var info = try publicKey(try await OpenSSLKeys.pair("ec:P-256").publicKey).subjectPublicKeyInfo
        info[info.count - 1] ^= 1
        #expect(throws: KeyError(.notAKey, "")) { try ImagePublicKey(subjectPublicKeyInfo: info) }
        let zero = Array(info.prefix(27)) + [UInt8](repeating: 0, count: 64)
        #expect(throws: KeyError(.notAKey, "")) { try ImagePublicKey(subjectPublicKeyInfo: zero) }
    }

    @Test("a public key with fewer or more bytes is refused, for every length", arguments: ImageKeyKind.allCases)
    func everyOtherLength(kind: ImageKeyKind) async throws {
        let info = try await OpenSSLKeys.key(kind).publicKey.subjectPublicKeyInfo
        for length in info.indices {
            #expect(throws: KeyError.self) { try ImagePublicKey(subjectPublicKeyInfo: Array(info.prefix(length))) }
        }
        #expect(throws: KeyError.self) { try ImagePublicKey(subjectPublicKeyInfo: info + [0]) }
    }

    @Test(
        "a private key, a PKCS#1 public key and a certificate are refused as public keys, with the command to convert them"
    )
    func otherBlocks() async throws {
        let pair = try await OpenSSLKeys.pair("rsa:2048")
        let old = try await OpenSSLCommand.run("pkey", "-traditional", input: pair.privateKey)
        let sealed = try await OpenSSLCommand.run("pkcs8", "-topk8", "-passout", "pass:secret", input: pair.privateKey)
        for pem in [pair.privateKey, old, sealed] {
            let error = #expect(throws: KeyError(.notAKey, "")) { try publicKey(pem) }
            #expect(error?.context.contains("private key") == true && error?.hint?.contains("-pubout") == true)
        }
        let pkcs1 = try await OpenSSLCommand.run("rsa", "-pubin", "-RSAPublicKey_out", input: pair.publicKey)
        let second = #expect(throws: KeyError(.notAKey, "")) { try publicKey(pkcs1) }
        #expect(second?.hint?.contains("-RSAPublicKey_in") == true)
        let folder = try TemporaryFolder()
        let key = try folder.write("key.pem", pair.privateKey)
        let certificate = try await OpenSSLCommand.run(
            "req", "-x509", "-key", key.string, "-subj", "/CN=test", "-days", "1")
        let third = #expect(throws: KeyError(.notAKey, "")) { try publicKey(certificate) }
        #expect(third?.hint?.contains("openssl x509") == true)
        let error = #expect(throws: KeyError(.notAKey, "")) {
            try KeyFile.privateKeyText(at: folder.write("p", pair.publicKey))
        }
        #expect(error?.context.contains("public key") == true)
    }

    @Test("the output of openssl ecparam -genkey, with the curve's parameters before the key, is read")
    func parametersBeforeTheKey() async throws {
        let pem = try await OpenSSLCommand.run("ecparam", "-name", "prime256v1", "-genkey")
        #expect(String(decoding: pem, as: UTF8.self).hasPrefix("-----BEGIN EC PARAMETERS-----"))
        let key = try privateKey(pem)
        #expect(key.publicKey.algorithm == .ecdsaP256)
        let converted = try await OpenSSLCommand.run("pkcs8", "-topk8", "-nocrypt", input: pem)
        #expect(try privateKey(converted).publicKey == key.publicKey)
    }

    @Test("a private key with the public part of another key signs nothing", arguments: ["rsa:2048", "ec:P-256"])
    func partsOfTwoKeys(name: String) async throws {
        var keys: [[UInt8]] = []
        for _ in 0..<2 {
            let pair = try await OpenSSLKeys.pair(name)
            keys.append(
                try await OpenSSLCommand.run("pkey", "-traditional", "-outform", "DER", input: pair.privateKey))
        }
        // RSAPrivateKey: the modulus is at offset 12. ECPrivateKey: the private number is at offset 7.
        let part = name == "rsa:2048" ? 12..<268 : 7..<39
        var mixed = keys[0]
        mixed.replaceSubrange(part, with: keys[1][part])
        let label = name == "rsa:2048" ? "RSA" : "EC"
        let text = base64(mixed)
        let lines = stride(from: 0, to: text.count, by: 64).map { text.dropFirst($0).prefix(64) }.joined(
            separator: "\n")
        let key = try privateKey(
            Array("-----BEGIN \(label) PRIVATE KEY-----\n\(lines)\n-----END \(label) PRIVATE KEY-----\n".utf8))
        let error = #expect(throws: SigningError.self) {
            try MCUbootSigner(key: key).sign([1, 2, 3], as: Self.layout())
        }
        #expect(error?.code == "not-a-key" && error?.context.contains("do not match") == true)
    }

    private static func layout() throws -> MCUbootLayout {
        var layout = MCUbootLayout(version: try mcubootVersion("1.0.0"), headerSize: 32)
        layout.padsHeader = true
        return layout
    }
}
