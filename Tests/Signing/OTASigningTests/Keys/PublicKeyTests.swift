import OTAFirmware
import OTASigning
import SystemPackage
import Testing

@Suite("Public keys") struct PublicKeyTests {
    @Test("the signatures of RFC 8032 are valid", arguments: RFC8032.all)
    func holds(_ vector: RFC8032) throws {
        let key = try PublicKey(bytes: vector.publicKey)
        #expect(try key.verify(signature: vector.signature, message: vector.message))
    }

    @Test("the key ID matches the example of docs/bundle-format.md")
    func idIsTheOneOfTheSpecification() throws {
        #expect(try PublicKey(bytes: RFC8032.test1.publicKey).id.description == "21fe31dfa154a261")
    }

    @Test("a changed signature, message or key is refused", arguments: RFC8032.all)
    func changed(_ vector: RFC8032) throws {
        let key = try PublicKey(bytes: vector.publicKey)
        for bit in 0..<512 {
            var signature = vector.signature
            signature[bit / 8] ^= 1 << (bit % 8)
            #expect(try !key.verify(signature: signature, message: vector.message), "bit \(bit)")
        }
        #expect(try !key.verify(signature: vector.signature, message: vector.message + [0]))
        for other in RFC8032.all where other.publicKey != vector.publicKey {
            #expect(try !PublicKey(bytes: other.publicKey).verify(signature: vector.signature, message: vector.message))
        }
    }

    @Test("a signature that does not have 64 bytes is refused")
    func signatureOfAnotherLengthIsRefused() throws {
        let key = try PublicKey(bytes: RFC8032.test3.publicKey)
        for length in 0..<64 {
            #expect(try !key.verify(signature: Array(RFC8032.test3.signature.prefix(length)), message: [0xaf, 0x82]))
        }
        #expect(try !key.verify(signature: RFC8032.test3.signature + [0], message: [0xaf, 0x82]))
        #expect(try !key.verify(signature: RFC8032.test3.signature + RFC8032.test3.signature, message: [0xaf, 0x82]))
    }

    /// S + L satisfies the same equation as S. Without this check, anyone could derive a second valid signature.
    @Test("a signature with S ≥ L is refused", arguments: RFC8032.all)
    func malleable(_ vector: RFC8032) throws {
        let key = try PublicKey(bytes: vector.publicKey)
        var scalar = Array(vector.signature[32...])
        for multiple in 1...14 {
            scalar = adding(Self.groupOrder, to: scalar)
            #expect(
                try !key.verify(signature: vector.signature[..<32] + scalar, message: vector.message),
                "S + \(multiple) L")
        }
        for scalar in [Self.groupOrder, [UInt8](repeating: 0xff, count: 32)] {
            #expect(try !key.verify(signature: vector.signature[..<32] + scalar, message: vector.message))
        }
        #expect(try !key.verify(signature: [UInt8](repeating: 0, count: 64), message: vector.message))
    }

    /// L = 2^252 + 27742317777372353535851937790883648493, little-endian.
    private static let groupOrder: [UInt8] =
        [
            0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14,
        ] + [UInt8](repeating: 0, count: 15) + [0x10]

    /// Returns the sum of two numbers of 32 bytes, little-endian.
    private func adding(_ left: [UInt8], to right: [UInt8]) -> [UInt8] {
        var carry = 0
        return zip(left, right).map { first, second in
            let sum = Int(first) + Int(second) + carry
            carry = sum >> 8
            return UInt8(truncatingIfNeeded: sum)
        }
    }

    @Test("a public key that does not have 32 bytes is refused")
    func otherLengthIsNoKey() {
        for count in [0, 31, 33, 44] {
            #expect(throws: KeyError(.notAKey, "")) { try PublicKey(bytes: [UInt8](repeating: 9, count: count)) }
        }
    }

    @Test("openssl reads the PEM text of a public key and writes the same text")
    func opensslReadsOurPEMAndWritesTheSame() async throws {
        let key = try PublicKey(bytes: RFC8032.test2.publicKey)
        let pem = try key.pem()
        #expect(try await OpenSSLCommand.run("pkey", "-pubin", "-pubout", input: pem.bytes) == pem.bytes)
        let der = try await OpenSSLCommand.run("pkey", "-pubin", "-pubout", "-outform", "DER", input: pem.bytes)
        #expect(der == key.subjectPublicKeyInfo)
        #expect(try PublicKey(pem: pem) == key)
    }

    @Test("text around the PEM block is ignored")
    func textAroundTheBlockIsAComment() throws {
        let key = try PublicKey(bytes: RFC8032.test2.publicKey)
        let pem = try key.pem().text
        #expect(try PublicKey(pem: SecretBytes("Who: release team\n" + pem + "\nafter it\n")) == key)
        #expect(try PublicKey(pem: SecretBytes(pem.split(separator: "\n").joined(separator: "\r\n") + "\r\n")) == key)
    }

    @Test("a text with two PEM blocks is refused")
    func twoBlocksAreRefused() throws {
        let first = try PublicKey(bytes: RFC8032.test1.publicKey).pem().text
        let second = try PublicKey(bytes: RFC8032.test2.publicKey).pem().text
        for text in [first + second, first + first, first + "-----BEGIN PUBLIC KEY-----\nAAAA\n"] {
            #expect(throws: KeyError(.notAKey, ""), "\(text)") { try PublicKey(pem: SecretBytes(text)) }
        }
    }

    @Test("a private key is refused as a public key")
    func privateKeyIsNoPublicKey() throws {
        let pem = try PrivateKey.generate().pem()
        #expect(throws: KeyError(.notAKey, "")) { try PublicKey(pem: pem) }
    }

    @Test(
        "a key for another algorithm is refused, and the error names the algorithm",
        arguments: [
            ("RSA", ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024"]),
            ("EC", ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]),
            ("X25519", ["-algorithm", "X25519"]),
            ("ED448", ["-algorithm", "ED448"]),
        ])
    func otherAlgorithm(_ name: String, _ options: [String]) async throws {
        let pair = try await OpenSSLCommand.run(["genpkey", "-quiet"] + options)
        let pem = try await OpenSSLCommand.run("pkey", "-pubout", input: pair)
        let error = #expect(throws: KeyError.self) { try PublicKey(pem: SecretBytes(copying: pem)) }
        #expect(error?.code == .wrongAlgorithm)
        #expect(error?.context.contains(name) == true)
    }

    @Test("a truncated PEM text is refused, for every length")
    func everyShorterTextIsRefused() throws {
        let pem = try PublicKey(bytes: RFC8032.test1.publicKey).pem().bytes
        for length in 0..<(pem.count - 1) {
            #expect(throws: KeyError(.notAKey, "")) { try PublicKey(pem: SecretBytes(copying: pem.prefix(length))) }
        }
    }

    @Test("a text of more than 64 KiB is refused")
    func textThatIsTooLongIsRefused() throws {
        let pem = try PublicKey(bytes: RFC8032.test1.publicKey).pem().bytes
        let comment = [UInt8](repeating: UInt8(ascii: "#"), count: (64 << 10) - pem.count - 1) + [UInt8(ascii: "\n")]
        #expect(throws: Never.self) { try PublicKey(pem: SecretBytes(copying: comment + pem)) }
        #expect(throws: KeyError(.tooLarge, "")) { try PublicKey(pem: SecretBytes(copying: [35] + comment + pem)) }
    }
}
