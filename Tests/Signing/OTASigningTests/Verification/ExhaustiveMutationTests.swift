import OTAFirmware
import OTASigning
import OTATestSupport
import OTAUpdate
import Testing

@Suite("Changed bundles, keys and images") struct ExhaustiveMutationTests {
    private static let mutations = 10_000

    /// Returns nil if the bundle is refused.
    private func verified(_ bytes: [UInt8], _ trust: TrustStore) -> VerifiedBundle? {
        guard let bundle = try? SignedBundle(parsing: bytes) else { return nil }
        return try? Verifier(trust: trust).verify(bundle)
    }

    @Test("a bundle with one flipped bit is refused, for every bit")
    func everyBitOfABundle() throws {
        let trust = try WorkedExample.trust()
        #expect(verified(WorkedExample.bytes, trust) != nil)
        for bit in 0..<8 * WorkedExample.bytes.count {
            var forged = WorkedExample.bytes
            forged[bit / 8] ^= 1 << UInt8(bit % 8)
            #expect(verified(forged, trust) == nil, "bit \(bit)")
        }
    }

    /// The offsets include the start and the end of each field.
    @Test("a bundle with an inserted, removed or truncated byte is refused, at every offset of the envelope")
    func everyBoundary() throws {
        let trust = try WorkedExample.trust()
        let bytes = WorkedExample.bytes
        for place in 0...WorkedExample.envelope.count {
            for value in [0, 1, 0xFF, bytes[place]] as [UInt8] {
                var longer = bytes
                longer.insert(value, at: place)
                #expect(verified(longer, trust) == nil, "\(value) inserted at \(place)")
                #expect(
                    verified(Array(longer.dropLast()), trust) == nil,
                    "\(value) inserted at \(place), the last byte removed")
            }
            var shorter = bytes
            shorter.remove(at: place)
            #expect(verified(shorter, trust) == nil, "byte \(place) removed")
            #expect(verified(shorter + [0], trust) == nil, "byte \(place) removed, a byte appended")
            #expect(verified(Array(bytes.prefix(place)), trust) == nil, "truncated to \(place) bytes")
        }
    }

    @Test("10,000 randomly changed bundles are refused")
    func tenThousandBundles() throws {
        let trust = try WorkedExample.trust()
        var random = SplitMix64(seed: 1)
        var changed = 0
        for _ in 0..<Self.mutations {
            let forged = random.mutation(of: WorkedExample.bytes)
            if forged != WorkedExample.bytes { changed += 1 }
            let bundle = verified(forged, trust)
            #expect(bundle == nil || forged == WorkedExample.bytes, "\(Hex.encode(forged))")
        }
        #expect(changed > Self.mutations * 9 / 10)
    }

    @Test("10,000 randomly changed public keys do not verify a bundle of the original key")
    func tenThousandKeys() throws {
        let key = try RFC8032.test1.privateKey().publicKey
        let text = try key.pem().withUnsafeBytes { Array($0) }
        var random = SplitMix64(seed: 2)
        for _ in 0..<Self.mutations {
            let forged = random.mutation(of: text)
            guard let other = try? PublicKey(pem: SecretBytes(copying: forged)), other != key else { continue }
            #expect(verified(WorkedExample.bytes, try TrustStore([other])) == nil)
        }
    }

    @Test("10,000 randomly changed MCUboot images are refused, or their hashed bytes are unchanged")
    func tenThousandMCUbootImages() throws {
        let image = Self.mcubootImage
        let original = try FirmwareInspector.inspect(image, format: .mcuboot) { SHA256() }
        guard case .mcuboot(let description) = original.details else { return #expect(Bool(false)) }
        let covered = Int(description.signedLength)
        #expect(covered == 32 + 64)
        var random = SplitMix64(seed: 3)
        var refused = 0
        for _ in 0..<Self.mutations {
            let forged = random.mutation(of: image)
            guard let found = try? FirmwareInspector.inspect(forged, format: .mcuboot, makeHash: { SHA256() }) else {
                refused += 1
                continue
            }
            guard case .mcuboot(let other) = found.details, other.digest != nil else { continue }
            #expect(forged.prefix(covered) == image.prefix(covered), "\(Hex.encode(forged))")
        }
        #expect(refused > Self.mutations / 2)
    }

    /// A header of 32 bytes, a body of 64 bytes, and the SHA-256 of both.
    private static let mcubootImage: [UInt8] = {
        var writer = ByteWriter()
        writer.write(UInt32(0x96F3_B83D))
        writer.write(UInt32(0))
        writer.write(UInt16(32))
        writer.write(UInt16(0))
        writer.write(UInt32(64))
        writer.write(UInt32(0))
        writer.write([1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0])
        writer.write((0..<64).map { UInt8($0 * 3) })
        let digest = SHA256.digest(of: writer.bytes)
        writer.write(UInt16(0x6907))
        writer.write(UInt16(4 + 4 + 32))
        writer.write(UInt16(0x10))
        writer.write(UInt16(32))
        writer.write(digest.bytes)
        return writer.bytes
    }()
}
