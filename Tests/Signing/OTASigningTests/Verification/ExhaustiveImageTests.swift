import OTAFirmware
import OTASigning
import Testing

@Suite("Every flipped bit and every truncation of small MCUboot images") struct ExhaustiveImageTests {
    @Test("an image with one flipped bit is refused, or its signed bytes are unchanged", arguments: [false, true])
    func noFlippedBitChangesWhatIsVerified(isPure: Bool) throws {
        let verifier = try SampleKey.verifier()
        let image = try ForgedImage(small: SampleKey.key(), isPure ? .pure : .digest, counter: 9)
        let bytes = image.bytes
        var accepted = 0
        for index in bytes.indices {
            for bit in 0..<8 {
                let flipped = image.changing(index, to: bytes[index] ^ 1 << UInt8(bit))
                guard let file = try? MCUbootFile(parsing: flipped), let verified = try? verifier.verify(file) else {
                    continue
                }
                // The digest of a purely signed image is not signed, so a changed type of its TLV has no effect.
                #expect(
                    verified.bytes.prefix(image.signed.count).elementsEqual(image.signed), "bit \(bit) of byte \(index)"
                )
                #expect(isPure && index >= image.signed.count, "bit \(bit) of byte \(index)")
                accepted += 1
            }
        }
        #expect(isPure == (accepted > 0))
    }

    @Test("a truncated image does not parse, for every length", arguments: [false, true])
    func noPartIsVerified(isPure: Bool) throws {
        let bytes = try ForgedImage(small: SampleKey.key(), isPure ? .pure : .digest, counter: 9).bytes
        for length in bytes.indices {
            #expect(throws: ImageError.self, "\(length) bytes") {
                try MCUbootFile(parsing: Array(bytes.prefix(length)))
            }
        }
    }
}
