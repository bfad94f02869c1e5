import OTAFirmware
import OTASigning
import OTATestSupport
import OTAUpdate
import Testing

/// A damaged text may still contain a key: the change may be in a comment, or give another seed. The PKCS#8 encryption of openssl does not
/// detect changes.
@Suite("Damaged PEM texts") struct PEMMutationTests {
    private static let refusals: Set<KeyError.Code> = [
        .notAKey, .wrongAlgorithm, .wrongPassphrase, .passphraseRequired, .smallOrder,
    ]

    @Test("3,000 damaged PEM texts are refused with a known error, or contain a key of 32 bytes", arguments: 0..<3)
    func damagedTextIsRefusedInWords(_ kind: Int) async throws {
        let key = try RFC8032.test1.privateKey()
        let texts = [
            try key.publicKey.pem().bytes, try key.pem().bytes,
            try await OpenSSLCommand.run(
                "pkcs8", "-topk8", "-v2", "aes-256-cbc", "-iter", "1", "-passout", "pass:secret",
                input: key.pem().bytes),
        ]
        let passphrase = try Passphrase("secret")
        var random = SplitMix64(seed: UInt64(kind))
        var refused = 0
        for _ in 0..<3000 {
            let text = Self.damaged(texts[kind], using: &random)
            do throws(KeyError) {
                let pem = SecretBytes(copying: text)
                let bytes =
                    kind == 0
                    ? try PublicKey(pem: pem).bytes : try PrivateKey(pem: pem, passphrase: passphrase).publicKey.bytes
                #expect(bytes.count == 32)
            } catch {
                #expect(Self.refusals.contains(error.code), "\(error)")
                refused += 1
            }
        }
        #expect(refused > 1000)
    }

    /// Returns `text` with up to four changes: a byte replaced, removed or inserted, or the rest of the text repeated.
    private static func damaged(_ text: [UInt8], using random: inout SplitMix64) -> [UInt8] {
        var text = text
        for _ in 0..<Int.random(in: 1...4, using: &random) {
            let place = Int.random(in: 0..<max(text.count, 1), using: &random)
            guard place < text.count else { continue }
            switch Int.random(in: 0..<5, using: &random) {
            case 0: text[place] = UInt8(truncatingIfNeeded: random.next())
            case 1: text[place] = Array("AQIDMC0=\n-".utf8).randomElement(using: &random) ?? 0
            case 2: text.remove(at: place)
            case 3: text.insert(UInt8(truncatingIfNeeded: random.next()), at: place)
            default: text.append(contentsOf: text[place...])
            }
        }
        return text
    }
}
