import OTAFirmware
import OTASigning
import Testing

@Suite("Private keys") struct PrivateKeyTests {
    @Test("signatures match the vectors of RFC 8032", arguments: RFC8032.all)
    func signs(_ vector: RFC8032) throws {
        let key = try vector.privateKey()
        #expect(key.publicKey.bytes == vector.publicKey)
        #expect(try key.sign(vector.message) == vector.signature)
    }

    @Test("each generated key is different")
    func everyKeyIsAnotherOne() throws {
        let keys = try (0..<20).map { _ in try PrivateKey.generate().publicKey }
        #expect(Set(keys).count == 20)
    }

    @Test("openssl reads a plain PEM text and writes the same text")
    func opensslReadsOurPlainPEMAndWritesTheSame() async throws {
        let pem = try RFC8032.test1.privateKey().pem()
        #expect(try await OpenSSLCommand.run("pkey", input: pem.bytes) == pem.bytes)
        let publicPEM = try await OpenSSLCommand.run("pkey", "-pubout", input: pem.bytes)
        #expect(try PublicKey(pem: SecretBytes(copying: publicPEM)).bytes == RFC8032.test1.publicKey)
        #expect(try PrivateKey(pem: pem).publicKey.bytes == RFC8032.test1.publicKey)
    }

    @Test("openssl decrypts an encrypted PEM text")
    func opensslReadsOurEncryptedPEM() async throws {
        let key = try RFC8032.test1.privateKey()
        let pem = try key.pem(passphrase: Passphrase("correct horse é"))
        #expect(pem.text.hasPrefix("-----BEGIN ENCRYPTED PRIVATE KEY-----\n"))
        let plain = try await OpenSSLCommand.run("pkey", "-passin", "pass:correct horse é", input: pem.bytes)
        #expect(try plain == key.pem().bytes)
        #expect(try PrivateKey(pem: pem, passphrase: Passphrase("correct horse é")).publicKey == key.publicKey)
    }

    @Test("an encrypted key uses PBES2 with scrypt (N 16384, r 8, p 1), AES-256-CBC and a random salt")
    func encryptionIsTheDocumentedOne() async throws {
        let key = try RFC8032.test1.privateKey()
        let pem = try key.pem(passphrase: Passphrase("a"))
        let structure = try await OpenSSLCommand.run("asn1parse", input: pem.bytes)
        let lines = String(decoding: structure, as: UTF8.self).split(separator: "\n").map { line in
            String(line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)[1].drop { $0 != "p" })
        }
        let values = lines.filter { $0.hasPrefix("prim: OBJECT") || $0.hasPrefix("prim: INTEGER") }
            .compactMap { $0.split(separator: ":").last.map(String.init) }
        #expect(values == ["PBES2", "scrypt", "4000", "08", "01", "aes-256-cbc"])
        #expect(try key.pem(passphrase: Passphrase("a")).bytes != pem.bytes)
    }

    @Test(
        "a key that openssl genpkey wrote can be read",
        arguments: [
            ["genpkey", "-algorithm", "ed25519"],
            ["genpkey", "-algorithm", "ed25519", "-aes256", "-pass", "pass:secret"],
            ["genpkey", "-algorithm", "ed25519", "-text"],
        ])
    func generated(_ command: [String]) async throws {
        let pem = try await OpenSSLCommand.run(command)
        let key = try PrivateKey(pem: SecretBytes(copying: pem), passphrase: Passphrase("secret"))
        let publicPEM = try await OpenSSLCommand.run(
            "pkey", "-pubout", "-passin", "pass:secret", input: pem)
        #expect(try key.publicKey.pem().bytes == publicPEM)
    }

    @Test(
        "a key that openssl pkcs8 -topk8 wrote can be read",
        arguments: [
            ["-nocrypt"], ["-v2", "aes-128-cbc"], ["-v2", "aes-256-cbc", "-iter", "10"], ["-v2", "des3"], ["-scrypt"],
            ["-v2prf", "hmacWithSHA512"], ["-v1", "PBE-SHA1-3DES"],
        ])
    func converted(_ options: [String]) async throws {
        let key = try RFC8032.test2.privateKey()
        let pem = try await OpenSSLCommand.run(
            ["pkcs8", "-topk8", "-passout", "pass:secret"] + options, input: key.pem().bytes)
        let read = try PrivateKey(pem: SecretBytes(copying: pem), passphrase: Passphrase("secret"))
        #expect(read.publicKey == key.publicKey)
    }

    @Test("an encrypted key requires its passphrase")
    func anEncryptedKeyWantsItsPassphrase() throws {
        let pem = try RFC8032.test1.privateKey().pem(passphrase: Passphrase("right"))
        #expect(throws: KeyError(.passphraseRequired, "")) { try PrivateKey(pem: pem) }
        #expect(throws: KeyError(.wrongPassphrase, "")) { try PrivateKey(pem: pem, passphrase: Passphrase("wrong")) }
    }

    /// The padding is valid for one wrong passphrase in 256. So the code must also check the decrypted structure.
    @Test("2,000 wrong passphrases are all reported as wrong-passphrase")
    func noWrongPassphraseIsTakenForAnotherFault() async throws {
        let plain = try RFC8032.test1.privateKey().pem().bytes
        let pem = try await OpenSSLCommand.run(
            "pkcs8", "-topk8", "-v2", "aes-256-cbc", "-iter", "1", "-passout", "pass:right", input: plain)
        for number in 0..<2000 {
            #expect(throws: KeyError(.wrongPassphrase, "")) {
                try PrivateKey(pem: SecretBytes(copying: pem), passphrase: Passphrase("wrong \(number)"))
            }
        }
    }

    @Test("a passphrase must have 1 to 1024 bytes")
    func passphraseHasALength() throws {
        #expect(throws: KeyError(.unusablePassphrase, "")) { try Passphrase("") }
        #expect(throws: Never.self) { try Passphrase(String(repeating: "a", count: 1024)) }
        #expect(throws: KeyError(.unusablePassphrase, "")) { try Passphrase(String(repeating: "a", count: 1025)) }
    }

    @Test(
        "a key for another algorithm is refused, and the error names the algorithm",
        arguments: [
            ("RSA", ["genpkey", "-quiet", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024"]),
            ("RSA", ["genrsa", "-traditional", "1024"]),
            ("EC", ["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]),
            ("EC", ["ecparam", "-name", "prime256v1", "-genkey"]),
            ("X25519", ["genpkey", "-algorithm", "X25519"]),
            ("ED448", ["genpkey", "-algorithm", "ED448"]),
            ("X25519", ["genpkey", "-algorithm", "X25519", "-aes256", "-pass", "pass:secret"]),
        ])
    func otherAlgorithm(_ name: String, _ command: [String]) async throws {
        let pem = try await OpenSSLCommand.run(command)
        let error = #expect(throws: KeyError(.wrongAlgorithm, "")) {
            try PrivateKey(pem: SecretBytes(copying: pem), passphrase: Passphrase("secret"))
        }
        #expect(error?.context.contains(name) == true)
    }

    @Test(
        "a text that is not a PKCS#8 key is refused",
        arguments: [
            "", "\0", "hello\n", "-----BEGIN PRIVATE KEY-----\n",
            "-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n",
            "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
            "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            // A byte after the structure, and a structure with a seed that is too short.
            "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9gAA==\n"
                + "-----END PRIVATE KEY-----\n",
            "-----BEGIN PRIVATE KEY-----\nMC0CAQAwBQYDK2VwBCEEH51hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn8=\n"
                + "-----END PRIVATE KEY-----\n",
        ])
    func noKey(_ text: String) throws {
        let passphrase = try Passphrase("secret")
        #expect(throws: KeyError(.notAKey, "")) { try PrivateKey(pem: SecretBytes(text), passphrase: passphrase) }
    }

    @Test("a public key is refused as a private key")
    func publicKeyIsNoPrivateKey() throws {
        let pem = try RFC8032.test1.privateKey().publicKey.pem()
        #expect(throws: KeyError(.notAKey, "")) { try PrivateKey(pem: pem) }
    }

    @Test("a truncated PEM text is refused, for every length")
    func everyShorterTextIsRefused() throws {
        let pem = try RFC8032.test1.privateKey().pem().bytes
        for length in 0..<(pem.count - 1) {
            #expect(throws: KeyError(.notAKey, "")) { try PrivateKey(pem: SecretBytes(copying: pem.prefix(length))) }
        }
    }
}
