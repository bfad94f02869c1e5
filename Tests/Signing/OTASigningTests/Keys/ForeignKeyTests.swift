import OTAFirmware
import OTASigning
import OTATestSupport
import SystemPackage
import Testing

@Suite("Key files of other tools") struct ForeignKeyTests {
    private func privateKey(_ pem: [UInt8], _ passphrase: String? = nil) throws(KeyError) -> PrivateKey {
        let secret = passphrase.map { try? Passphrase($0) } ?? nil
        return try PrivateKey(pem: SecretBytes(copying: pem), passphrase: secret)
    }

    /// The example of RFC 8410, section 10.3: a OneAsymmetricKey with attributes and a public key.
    private static let rfc8410 = """
        -----BEGIN PRIVATE KEY-----
        MHICAQEwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC
        oB8wHQYKKoZIhvcNAQkJFDEPDA1DdXJkbGUgQ2hhaXJzgSEAGb9ECWmEzf6FQbrB
        Z9w7lshQhqowtrbLDFw4rXAxZuE=
        -----END PRIVATE KEY-----

        """

    @Test("PKCS#8 version 2 with the public key is read (RFC 8410, section 10.3)")
    func oneAsymmetricKey() throws {
        let pem = Array(Self.rfc8410.utf8)
        let key = try privateKey(pem)
        #expect(
            Hex.encode(key.publicKey.bytes) == "19bf44096984cdfe8541bac167dc3b96c85086aa30b6b6cb0c5c38ad703166e1")
        #expect(try ImagePrivateKey(pem: SecretBytes(copying: pem)).publicKey.bundleKey == key.publicKey)
        let sealed = Array(Self.encrypted.utf8)
        #expect(try privateKey(sealed, "secret").publicKey == key.publicKey)
        #expect(throws: KeyError(.wrongPassphrase, "")) { try privateKey(sealed, "other") }
    }

    /// The same key in an EncryptedPrivateKeyInfo. `openssl enc -aes-128-cbc` encrypted the bytes; PBKDF2 has one iteration.
    private static let encrypted = """
        -----BEGIN ENCRYPTED PRIVATE KEY-----
        MIHbMFYGCSqGSIb3DQEFDTBJMCgGCSqGSIb3DQEFDDAbBAgAAAAAAAAAAAIBATAM
        BggqhkiG9w0CCQUAMB0GCWCGSAFlAwQBAgQQAAAAAAAAAAAAAAAAAAAAAASBgNI5
        dm5chUQv/U/mv0ENeywggVKgV/VNwvkN9W1v/fXfFSEhw0kYfCqPuSzmJl7pGYTB
        SNZjC4kiKczLT5Chg8/Y8DysLid6GQz31kQ4kgXoRKnrEnWvE5/LMy85bV6rvXDi
        giD6VPCVN/zAmXRDqphMZ6CzmWHgiuE6+0qKQhla
        -----END ENCRYPTED PRIVATE KEY-----

        """

    @Test("PKCS#8 version 2 with another public key is refused")
    func otherPublicKey() throws {
        let forged = Self.rfc8410.replacing("Z9w7lshQhqowtrbLDFw4rXAxZuE=", with: "Z9w7lshQhqowtrbLDFw4rXAxZuA=")
        let error = #expect(throws: KeyError(.notAKey, "")) { try privateKey(Array(forged.utf8)) }
        #expect(error?.context.contains("do not match") == true)
    }

    @Test("spaces at line ends, CR LF and a byte order mark are accepted, as openssl accepts them")
    func whitespace() async throws {
        let pem = try RFC8032.test1.privateKey().pem().text
        let publicPEM = try RFC8032.test1.privateKey().publicKey.pem().text
        let changes: [(String) -> String] = [
            { $0.replacing("\n", with: " \n") }, { $0.replacing("\n", with: "\r\n") },
            { $0.replacing("\n", with: " \t\r\n") }, { "\u{FEFF}" + $0 },
        ]
        for change in changes {
            let text = Array(change(pem).utf8)
            #expect(try await OpenSSLCommand.run("pkey", input: text) == Array(pem.utf8))
            #expect(try privateKey(text).publicKey.bytes == RFC8032.test1.publicKey)
            let key = try PublicKey(pem: SecretBytes(copying: Array(change(publicPEM).utf8)))
            #expect(key.bytes == RFC8032.test1.publicKey)
        }
    }

    @Test("the block EC PARAMETERS before a key is ignored")
    func parameters() async throws {
        let pem = try await OpenSSLCommand.run("ecparam", "-genkey", "-name", "prime256v1")
        #expect(String(decoding: pem, as: UTF8.self).hasPrefix("-----BEGIN EC PARAMETERS"))
        let info = try await OpenSSLCommand.run("pkey", "-pubout", "-outform", "DER", input: pem)
        #expect(try ImagePrivateKey(pem: SecretBytes(copying: pem)).publicKey.subjectPublicKeyInfo == info)
        let only = try await OpenSSLCommand.run("ecparam", "-name", "prime256v1")
        #expect(throws: KeyError(.wrongAlgorithm, "")) { try privateKey(only) }
    }

    @Test(
        "a key with an encryption that libcrypto does not support is converted by the command of the hint",
        arguments: ["PBE-MD5-DES", "PBE-SHA1-RC2-40"])
    func oldEncryption(name: String) async throws {
        let folder = try TemporaryFolder()
        let key = try RFC8032.test1.privateKey()
        let pem = try await OpenSSLCommand.run(
            "pkcs8", "-topk8", "-v1", name, "-provider", "legacy", "-provider", "default", "-passout", "pass:secret",
            input: key.pem().bytes)
        let error = #expect(throws: KeyError(.notAKey, "")) { try privateKey(pem, "secret") }
        let path = try folder.write("old.pem", pem)
        #expect(try await convert(error, of: path, in: folder).publicKey == key.publicKey)
    }

    /// Runs the `openssl` command of a hint, and reads the key that it writes.
    private func convert(_ error: KeyError?, of path: FilePath, in folder: TemporaryFolder) async throws -> PrivateKey {
        let command = try #require(error?.hint?.split(separator: ": ", maxSplits: 1).last)
        let output = folder / "NEW.pem"
        let words = command.replacing("KEY", with: path.string).replacing("NEW.pem", with: output.string)
        let result = try await Command.run(
            "sh", ["-c", words + (words.contains("topk8") ? " -passin pass:secret -passout pass:secret" : "")])
        #expect(result.succeeded, "\(words): \(result.errorText)")
        return try privateKey(contents(of: output), "secret")
    }

    @Test("a private key in DER, a raw key, and a key with a certificate are converted by the commands of the hints")
    func conversions() async throws {
        let folder = try TemporaryFolder()
        let key = try RFC8032.test1.privateKey()
        let pem = try key.pem().bytes
        let der = try await OpenSSLCommand.run("pkey", "-outform", "DER", input: pem)
        let path = try folder.write("k.pem", pem)
        let certificate = try await OpenSSLCommand.run("req", "-x509", "-new", "-key", path.string, "-subj", "/CN=x")
        for (name, file) in [("der", der), ("raw", Array(der.suffix(32))), ("both", pem + certificate)] {
            let input = try folder.write(name, file)
            let error = #expect(throws: KeyError(.notAKey, "")) { try privateKey(file) }
            #expect(try await convert(error, of: input, in: folder).publicKey == key.publicKey, "\(name)")
        }
    }

    @Test("a key of ssh-keygen is refused with the command that uses or converts it", arguments: ["ed25519", "ecdsa"])
    func openSSH(type: String) async throws {
        let folder = try TemporaryFolder()
        let path = folder / "id"
        let made = try await Command.run("ssh-keygen", ["-q", "-t", type, "-N", "", "-f", path.string])
        #expect(made.succeeded, "\(made.errorText)")
        let text = try contents(of: path)
        let error = #expect(throws: KeyError(.notAKey, "")) { try privateKey(text) }
        #expect(error?.hint?.contains(type == "ed25519" ? "ssh-add" : "ssh-keygen -p -m PKCS8") == true)
        let publicText = try contents(of: folder / "id.pub")
        let publicError = #expect(throws: KeyError(.notAKey, "")) {
            try ImagePublicKey(pem: SecretBytes(copying: publicText))
        }
        #expect(publicError?.context.contains("OpenSSH") == true)
        #expect(
            publicError?.hint?.contains(type == "ed25519" ? "keygen NAME --from agent:ID" : "ssh-keygen -e") == true)
    }

    @Test(
        "a text that is not a key is named",
        arguments: [
            ("PuTTY-User-Key-File-3: ssh-ed25519\n", "PuTTY", "puttygen"),
            ("{\"kty\":\"OKP\",\"crv\":\"Ed25519\"}", "JWK", "jwcrypto"),
            ("untrusted comment: minisign secret key\n", "minisign", "otaflash keygen"),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "certificate", "private key"),
            ("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "public key", "private key"),
        ])
    func texts(text: String, found: String, hint: String) {
        let error = #expect(throws: KeyError(.notAKey, "")) { try privateKey(Array(text.utf8)) }
        #expect(error?.context.contains(found) == true, "\(error?.context ?? "")")
        #expect(error?.hint?.contains(hint) == true, "\(error?.hint ?? "")")
    }
}
