import OTAFirmware
import OTASigners
import OTASigning
import OTATestSupport
import Testing

@Suite("Encodings of keys and signatures in tokens") struct TokenEncodingTests {
    private static let key: [UInt8] =
        Hex.decode("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a") ?? []

    @Test("the three encodings of an Ed25519 point result in the same key", arguments: [[], [4, 32], [3, 33, 0]])
    func edwardsPoints(header: [UInt8]) throws {
        #expect(try TokenEncoding.edwardsKey(point: header + Self.key).bytes == Self.key)
    }

    @Test("a point of another length or form is not an Ed25519 key", arguments: [0, 1, 31, 33, 34, 35, 57, 59])
    func otherPoints(count: Int) {
        #expect(throws: KeyError(.wrongAlgorithm, "")) {
            try TokenEncoding.edwardsKey(point: [UInt8](repeating: 7, count: count))
        }
    }

    @Test("a point of small order is refused")
    func smallOrder() {
        #expect(throws: KeyError(.smallOrder, "")) {
            try TokenEncoding.edwardsKey(point: [UInt8](repeating: 0, count: 32))
        }
    }

    @Test("the two encodings of a P-256 point result in the key that openssl writes")
    func p256Points() async throws {
        let pem = try await openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout")
        let info = try await openssl("pkey", "-pubout", "-outform", "DER", input: pem)
        let point = Array(info.suffix(65))
        let p256: [UInt8] = [6, 8, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 3, 1, 7]
        for encoded in [point, [4, 65] + point] {
            #expect(try TokenEncoding.p256Key(parameters: p256, point: encoded).subjectPublicKeyInfo == info)
        }
        #expect(throws: KeyError(.wrongAlgorithm, "")) {
            try TokenEncoding.p256Key(parameters: [6, 5, 0x2B, 0x81, 4, 0, 0x22], point: point)
        }
        var outside = point
        outside[64] ^= 1
        for malformed in [[], outside, Array(point.dropLast()), [2] + point.dropFirst()] {
            #expect(throws: KeyError(.notAKey, "")) {
                try TokenEncoding.p256Key(parameters: p256, point: malformed)
            }
        }
    }

    /// openssl parses the DER and prints both numbers.
    @Test(
        "an ECDSA signature is the DER of both numbers",
        arguments: [
            ("01", "02"), ("80", "7f"), ("ff00", "00ff"), ("00", "8000"), (String(repeating: "f", count: 64), "1f"),
        ])
    func ecdsaSignatures(first: String, second: String) async throws {
        let raw = [first, second].flatMap { text in
            let bytes = Hex.decode(text) ?? []
            return [UInt8](repeating: 0, count: 32 - bytes.count) + bytes
        }
        let der = try #require(ECDSASignature.der(raw))
        let text = String(decoding: try await openssl("asn1parse", "-inform", "DER", input: der), as: UTF8.self)
        let numbers = text.split(separator: "\n").filter { $0.contains("INTEGER") }.compactMap {
            $0.split(separator: ":").last
        }
        #expect(numbers.map { $0.lowercased().drop { $0 == "0" } } == [first, second].map { $0.drop { $0 == "0" } })
    }

    @Test("a signature of another length is not an ECDSA P-256 signature", arguments: [0, 63, 65, 72, 96])
    func otherSignatures(count: Int) {
        #expect(ECDSASignature.der([UInt8](repeating: 1, count: count)) == nil)
    }

    private func openssl(_ arguments: String..., input: [UInt8] = []) async throws -> [UInt8] {
        let command = try await Command.run("openssl", arguments, input: input)
        try #require(command.succeeded, "\(command.errorText)")
        return command.output
    }
}
