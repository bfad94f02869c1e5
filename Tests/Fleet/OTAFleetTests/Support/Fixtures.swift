import OTAFirmware
import OTAFleet
import OTASigning
import Testing

/// Keys and names of the tests. The seeds of the keys are the bytes 0 to 31, 32 to 63, and 64 to 95.
struct Fixtures {
    let operatorKey: PrivateKey
    let controllerKey: PrivateKey
    let strangerKey: PrivateKey
    let bundleKey: PrivateKey
    let operators: OperatorKeys
    let bundle: VerifiedBundle

    let product: ProductName
    let name: RolloutName
    let device: DeviceID
    let created: Timestamp
    let expires: Timestamp
    let a: Holder
    let b: Holder

    static func key(_ first: UInt8) throws -> PrivateKey { try PrivateKey(seed: (0..<32).map { first + $0 }) }

    init() throws {
        operatorKey = try Self.key(0)
        controllerKey = try Self.key(32)
        strangerKey = try Self.key(64)
        bundleKey = try Self.key(96)
        operators = OperatorKeys(try TrustStore([operatorKey.publicKey]))
        product = try #require(ProductName("acme-thermostat"))
        name = try #require(RolloutName("t-140"))
        device = try #require(DeviceID("ble-AABBCCDDEEFF"))
        created = try #require(Timestamp("2026-11-22T18:00:00Z"))
        expires = try #require(Timestamp("2026-12-22T18:00:00Z"))
        a = Holder(gateway: try #require(GatewayName("a")), instance: GatewayInstance(1))
        b = Holder(gateway: try #require(GatewayName("b")), instance: GatewayInstance(2))
        bundle = try Self.bundle(signedBy: bundleKey)
    }

    static func bundle(
        version: String = "1.4.0", counter: UInt32 = 7, product: String = "acme-thermostat",
        image: [UInt8] = [1, 2, 3],
        signedBy key: PrivateKey
    ) throws -> VerifiedBundle {
        let manifest = try Manifest(
            imageFormat: .raw, imageSize: UInt32(image.count), securityCounter: counter, created: 1_767_225_600,
            imageDigest: SHA256.digest(of: image), version: #require(SemanticVersion(version)),
            product: #require(ProductName(product)))
        let signature = try #require(
            BundleSignature(.ed25519, keyID: key.publicKey.id, signature: key.sign(manifest.bytes)))
        let bundle = try SignedBundle(envelope: Envelope(manifest: manifest, signatures: [signature]), image: image)
        return try Verifier(trust: TrustStore([key.publicKey])).verify(bundle)
    }

    func release() throws -> Verified<FleetRelease> {
        try operators.release(SignedRecord(signing: FleetRelease(of: bundle), with: operatorKey).encoded())
    }

    /// A plan with the stages 1 %, 10 % and 100 %.
    func rollout(
        _ name: String = "t-140", stages: [Stage]? = nil, attempts: Int = 3, running: String? = "<1.4.0",
        created: Timestamp? = nil, haltMinimum: Int = 4, links: Enrolment.Links = .bluetooth,
        enrolled: EnrolledDevices = .none, salt: UInt8 = 0
    ) throws -> Rollout {
        try Rollout(
            name: #require(RolloutName(name)), release: release(),
            selection: Selection(product: product, running: running.flatMap { VersionCondition($0) }),
            stages: stages
                ?? [1, 10, 100].map { try #require(Stage(.percent($0), minimum: 2, soakSeconds: 60)) },
            halt: #require(Rollout.Halt(failedPercent: 5, minimum: haltMinimum)), attempts: attempts,
            enrolment: Enrolment(links, enrolled), salt: (0..<16).map { salt + $0 },
            controllers: [controllerKey.publicKey], created: created ?? self.created, expires: expires)
    }

    func verified(_ rollout: Rollout) throws -> Verified<Rollout> {
        try operators.rollout(SignedRecord(signing: rollout, with: operatorKey).encoded())
    }

    func verified(_ progress: RolloutProgress, of rollout: Verified<Rollout>) throws -> Verified<RolloutProgress> {
        try OperatorKeys.progress(SignedRecord(signing: progress, with: controllerKey).encoded(), of: rollout)
    }

    /// The job of a device from a rollout with one stage, whose progress admits all devices.
    func assignment(attempts: Int = 3) throws -> Assignment {
        var list = AssignmentList(operators: operators, memory: SerialMemory())
        let rollout = try rollout(stages: [#require(Stage(.percent(100)))], attempts: attempts)
        var controller = StageMachine(try verified(rollout), progress: nil, memory: SerialMemory())
        let step = controller.step([], in: .none, at: .at(0))
        let release = try release().value
        _ = try list.add(release: SignedRecord(signing: release, with: operatorKey).encoded(), named: release.id)
        _ = try list.add(rollout: SignedRecord(signing: rollout, with: operatorKey).encoded(), named: rollout.name)
        _ = try list.add(
            progress: SignedRecord(signing: #require(step), with: controllerKey).encoded(), of: rollout.name, at: .at(0)
        )
        let assignment = list.assignment(for: try record(), at: .at(0))
        return try #require(assignment)
    }

    /// The record of a device that runs version 1.3.0.
    func record(_ id: String? = nil) throws -> DeviceRecord {
        var record = DeviceRecord(device: try id.map { try #require(DeviceID($0)) } ?? device)
        record.product = product
        record.version = SemanticVersion("1.3.0")
        return record
    }
}

extension Duration {
    static func at(_ seconds: Double) -> Duration { .milliseconds(Int(seconds * 1000)) }
}

extension Moment {
    /// A moment of a test: seconds on the monotonic clock. The wall clock shows the same time after the creation of the test's rollout.
    static func at(_ seconds: Double) -> Moment {
        Moment(.at(seconds), wall: Timestamp("2026-11-22T18:00:00Z")?.advanced(by: Int64(seconds)))
    }
}
