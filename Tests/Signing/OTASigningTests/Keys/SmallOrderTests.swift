import OTAFirmware
import OTASigning
import Testing

@Suite("Public keys of small order") struct SmallOrderTests {
    /// All encodings of the eight points whose order divides 8, including both signs of x and y ≥ p.
    static let encodings: [[UInt8]] = [
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    ].flatMap { text -> [[UInt8]] in
        let bytes = Hex.decode(text) ?? []
        return [bytes, bytes.dropLast() + [(bytes.last ?? 0) | 0x80]]
    }

    @Test("a public key of small order is refused", arguments: encodings)
    func refused(_ bytes: [UInt8]) {
        #expect(throws: KeyError(.smallOrder, "")) { try PublicKey(bytes: bytes) }
        let info = "MCowBQYDK2VwAyEA" + base64(bytes)
        let pem = "-----BEGIN PUBLIC KEY-----\n\(info)\n-----END PUBLIC KEY-----\n"
        #expect(throws: KeyError(.smallOrder, "")) { try PublicKey(pem: SecretBytes(pem)) }
    }

    /// This is the reason to refuse these keys. With S = 1 and R the base point, a signature needs no private key. `openssl` accepts it for
    /// one of the first messages.
    @Test("openssl accepts a forged signature for a public key of small order", arguments: encodings)
    func forgery(_ bytes: [UInt8]) async throws {
        let folder = try TemporaryFolder()
        let base: [UInt8] = [0x58] + [UInt8](repeating: 0x66, count: 31)
        let one: [UInt8] = [1] + [UInt8](repeating: 0, count: 31)
        let header = try PublicKey(bytes: RFC8032.test1.publicKey).subjectPublicKeyInfo.prefix(12)
        let key = try folder.write("key.der", header + bytes)
        var forged = false
        for number: UInt8 in 0..<100 where !forged {
            forged = try await OpenSSLCommand.verifies(base + one, over: [number], by: key, in: folder)
        }
        #expect(forged)
    }
}
