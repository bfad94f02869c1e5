import OTAFirmware
import OTASigning
import OTATestSupport
import OTAUpdate
import Testing

@Suite("SHA-256") struct SHA256Tests {
    @Test(
        "the digests match the vectors of FIPS 180-4",
        arguments: [
            ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            (
                "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
            ),
        ])
    func vectors(_ message: String, _ digest: String) {
        #expect(SHA256.digest(of: Array(message.utf8)).description == digest)
        #expect(SHA256.digest(of: Array(message.utf8)[...]).description == digest)
    }

    @Test("the digest of one million characters matches the vector of FIPS 180-4")
    func vectorOfAMillionCharacters() {
        let message = [UInt8](repeating: UInt8(ascii: "a"), count: 1_000_000)
        let digest = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"
        #expect(SHA256.digest(of: message).description == digest)
    }

    @Test("incremental hashing gives the same digest as one call")
    func piecesGiveTheDigestOfTheWhole() {
        var random = SplitMix64(seed: 1)
        let message = random.bytes(10_000)
        for _ in 0..<50 {
            let hash = SHA256()
            var rest = message[...]
            while !rest.isEmpty {
                let piece = rest.prefix(Int.random(in: 0...700, using: &random))
                piece.withUnsafeBytes { hash.update($0) }
                rest = rest.dropFirst(piece.count)
            }
            #expect(hash.finish() == SHA256.digest(of: message))
        }
    }
}
