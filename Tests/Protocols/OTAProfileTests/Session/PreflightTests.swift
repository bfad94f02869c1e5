import OTAFirmware
import OTAProfile
import OTASigning
import OTAUpdate
import Testing

@Suite("Preflight checks of a profile push") struct PreflightTests {
    private typealias Device = Conversation.Device

    @Test("an image of exactly the device's largest size is sent")
    func theLargestImage() throws {
        var talk = try Conversation(.push(try ExampleUpdate.bundle(), UpdateOptions()))
        talk.comeUp(Device(largest: [0x58, 2, 0, 0]))
        #expect(talk.outcome == nil)
    }

    @Test("a push does not resume the trial of another version")
    func aForeignTrial() throws {
        var talk = try Conversation(.push(try ExampleUpdate.bundle(), UpdateOptions()))
        talk.comeUp(Device(version: "2.0.0", state: 5))
        #expect(talk.error == .inTrial)
    }

    @Test("an image of every format is sent to a device that accepts any format", arguments: ImageFormat.allCases)
    func anyImageFormat(format: ImageFormat) throws {
        #expect(try Self.error(of: format, Device(format: 255)) == nil)
        #expect(try Self.error(of: format, Device(format: format == .raw ? 1 : 0)) == .wrongImageFormat)
    }

    @Test(
        "the bundle's minimum battery level is enough, and one per cent less is refused",
        arguments: [49, 50] as [UInt8])
    func theLeastBattery(level: UInt8) throws {
        #expect(try Self.error(minimumBattery: 50, Device(battery: level)) == (level < 50 ? .batteryLow : nil))
    }

    /// A partial upload that the device holds: the digest prefix of its manifest, its offset, and the expected plan.
    private static let partial: [(prefix: [UInt8]?, offset: UInt8, resume: UpdateOptions.Resume, plan: UpdatePlan)] = [
        (nil, 0, .automatic, UpdatePlan(resumeFrom: 0, bytes: 600, discards: 0)),
        ([], 100, .automatic, UpdatePlan(resumeFrom: 100, bytes: 500, discards: 0)),
        ([], 100, .never, UpdatePlan(resumeFrom: 0, bytes: 600, discards: 100)),
        ([1, 2, 3, 4, 5, 6, 7, 8], 100, .expected, UpdatePlan(resumeFrom: 0, bytes: 600, discards: 100)),
    ]

    @Test("a dry run only reads, and ends after the preflight with the plan", arguments: partial)
    func dryRun(partial: (prefix: [UInt8]?, offset: UInt8, resume: UpdateOptions.Resume, plan: UpdatePlan)) throws {
        let bundle = try ExampleUpdate.bundle()
        var talk = try Conversation(.push(bundle, UpdateOptions(resume: partial.resume, isDryRun: true)))
        let prefix = partial.prefix == [] ? bundle.manifestDigest.prefix : partial.prefix
        var device = Device(held: prefix.map { $0 + [partial.offset, 0, 0, 0] })
        device.counter = 0
        talk.comeUp(device)
        talk.expect(.disconnect)
        #expect(talk.report?.outcome == .wouldUpdate(partial.plan))
        #expect(talk.report?.transfer == nil && talk.report?.device.runningVersion == "1.0.0")
        #expect(talk.reports.contains(.nothingToResume) == (partial.resume == .expected))
    }

    @Test("a dry run connects again after a lost link")
    func dryRunAfterALoss() throws {
        var talk = try Conversation(.push(try ExampleUpdate.bundle(), UpdateOptions(isDryRun: true)))
        let channels: Set = [
            ProfileChannel.info, ProfileChannel.control, ProfileChannel.data, ProfileChannel.progress,
            ProfileChannel.version,
        ]
        talk.tell(.linkUp(LinkProperties(channels: channels, maximumValueLength: 244)))
        talk.forget()
        talk.tell(.linkDown(LinkError(.lost, "lost")))
        talk.waitForDeadline()
        talk.expect(.connect())
        talk.comeUp(Device(counter: 0))
        talk.expect(.disconnect)
        #expect(talk.report?.outcome == .wouldUpdate(UpdatePlan(resumeFrom: 0, bytes: 600, discards: 0)))
    }

    /// The error of a push of a small image to this device.
    private static func error(
        of format: ImageFormat = .raw, minimumBattery: UInt8? = nil, _ device: Device
    ) throws -> UpdateError.Code? {
        let key = try PrivateKey.generate()
        let image: [UInt8] = [1, 2, 3]
        let manifest = try Manifest(
            imageFormat: format, imageSize: 3, securityCounter: 8, created: 0, imageDigest: SHA256.digest(of: image),
            version: try #require(SemanticVersion("1.1.0")), product: try #require(ProductName("demo")),
            minimumBattery: minimumBattery)
        let signature = try #require(
            BundleSignature(.ed25519, keyID: key.publicKey.id, signature: try key.sign(manifest.bytes)))
        let bundle = try Verifier(trust: try TrustStore([key.publicKey])).verify(
            try SignedBundle(envelope: try Envelope(manifest: manifest, signatures: [signature]), image: image))
        var talk = try Conversation(.push(bundle, UpdateOptions()))
        var device = device
        device.key = key.publicKey.id.bytes
        talk.comeUp(device)
        return talk.error
    }
}
