import OTAFirmware
import OTASigning
import Testing

/// Every bit of small signed images, and every place to cut them.
@Suite struct ExhaustiveImageTests {
    @Test(arguments: [false, true])
    func noFlippedBitChangesWhatIsVerified(isPure: Bool) throws {
        let verifier = try SampleKey.verifier()
        let image = try ForgedImage(small: SampleKey.key(), isPure ? .pure : .digest, counter: 9)
        let bytes = image.bytes
        var taken = 0
        for index in bytes.indices {
            for bit in 0..<8 {
                let flipped = image.changing(index, to: bytes[index] ^ 1 << UInt8(bit))
                guard let file = try? MCUbootFile(parsing: flipped), let verified = try? verifier.verify(file) else {
                    continue
                }
                // Who flips the type of a digest that is beside a pure signature takes nothing from what is signed.
                #expect(
                    verified.bytes.prefix(image.signed.count).elementsEqual(image.signed), "bit \(bit) of byte \(index)"
                )
                #expect(isPure && index >= image.signed.count, "bit \(bit) of byte \(index)")
                taken += 1
            }
        }
        #expect(isPure == (taken > 0))
    }

    @Test(arguments: [false, true])
    func noPartIsVerified(isPure: Bool) throws {
        let bytes = try ForgedImage(small: SampleKey.key(), isPure ? .pure : .digest, counter: 9).bytes
        for length in bytes.indices {
            #expect(throws: ImageError.self, "\(length) bytes") {
                try MCUbootFile(parsing: Array(bytes.prefix(length)))
            }
        }
    }
}
