import OTAFirmware
import OTAProfile
import OTASigning
import OTAUpdate
import Testing

/// The bundle is the example with an additional ML-DSA-65 signature by a key that this host does not trust.
@Suite("The envelope that a profile push sends") struct SentEnvelopeTests {
    private typealias Device = Conversation.Device

    private static let exampleKey: [UInt8] = [0x21, 0xfe, 0x31, 0xdf, 0xa1, 0x54, 0xa2, 0x61]
    private static let otherKey = [UInt8](repeating: 0x90, count: 8)
    /// The length of the example's envelope with both signatures.
    private static let bothLength = 169 + 12 + 3309

    private static func bundle() throws -> VerifiedBundle {
        let example = try ExampleUpdate.bundle()
        let keyID = try #require(KeyID(bytes: otherKey))
        let signature = try #require(
            BundleSignature(.mlDSA65, keyID: keyID, signature: [UInt8](repeating: 7, count: 3309)))
        let bundle = try SignedBundle(envelope: try example.envelope.adding(signature), image: example.image)
        let trust = try TrustStore([try PublicKey(bytes: ExampleUpdate.publicKey)])
        return try Verifier(trust: trust).verify(bundle)
    }

    private static func push(to device: Device, _ options: UpdateOptions = UpdateOptions()) throws -> Conversation {
        var talk = try Conversation(.push(try bundle(), options))
        talk.comeUp(device)
        return talk
    }

    @Test("a device receives only the signatures by the keys that it lists")
    func onlyItsKeys() throws {
        var talk = try Self.push(to: Device())
        // The envelope of the example, which has only the Ed25519 signature.
        talk.expect(
            "01 21 01 a9 00 00 00 00 00 00 00 ab 01 74 64 e2 fa 78 e9",
            answering: "81 21 00 00 10 00 00 00 00 00 00 00 00")
        talk.expect(
            .link(.send([ExampleUpdate.bytes("00 10") + ExampleUpdate.envelope], ProfileChannel.data)),
            .link(.write(ExampleUpdate.bytes("02 22 01 10"), ProfileChannel.control)))
        talk.notify("82 22 00 01 10 a9 00 00 00 88 e1 59 0d")
        talk.expect("03 23", answering: "83 23 00")
        // The image and the kept upload do not depend on the signatures.
        talk.expect("01 24 02 58 02 00 00 ff ff ff ff db 4f 2a c2 5d 14 03 69")
    }

    @Test("a device that lists both keys receives both signatures")
    func bothKeys() throws {
        let bundle = try Self.bundle()
        var talk = try Self.push(to: Device(key: Self.exampleKey + Self.otherKey, longestEnvelope: Self.bothLength))
        talk.expect(
            .link(
                .write(
                    [1, 0x21, 1, 0xa2, 0x0d, 0, 0, 0, 0, 0, 0] + bundle.envelopeDigest.prefix, ProfileChannel.control)))
    }

    @Test(
        "an envelope that does not fit in the device's buffer is refused before the first byte",
        arguments: [false, true])
    func tooLarge(isDryRun: Bool) throws {
        let options = UpdateOptions(isDryRun: isDryRun)
        let both = Self.exampleKey + Self.otherKey
        for (device, fits) in [
            (Device(longestEnvelope: 169), true), (Device(longestEnvelope: 168), false),
            (Device(key: both), false), (Device(key: both, longestEnvelope: Self.bothLength - 1), false),
            (Device(key: both, longestEnvelope: Self.bothLength), true),
        ] {
            var talk = try Self.push(to: device, options)
            #expect(talk.error == (fits ? nil : .envelopeTooLarge))
            if !fits { talk.expect(.disconnect) }
        }
    }

    @Test("a device that lists none of the signers is refused, and the error names the signers and the device's keys")
    func noSigner() throws {
        let talk = try Self.push(to: Device(key: Array(1...8)))
        #expect(talk.error == .untrustedByDevice)
        guard case .failure(let error) = talk.outcome else { return }
        #expect(
            error.context
                == "the bundle is signed by 21fe31dfa154a261, 9090909090909090, the device trusts 0102030405060708")
    }

    /// The device could install new firmware between two links, for example.
    @Test("a new link to a device with another list of keys sends the signatures of that list")
    func anotherList() throws {
        var talk = try Self.push(to: Device())
        talk.forget()
        talk.tell(.linkDown(LinkError(.lost, "lost")))
        talk.waitForDeadline()
        talk.forget()
        talk.comeUp(Device(key: Self.exampleKey + Self.otherKey))
        talk.expect(.disconnect)
        #expect(talk.error == .envelopeTooLarge)
    }
}
