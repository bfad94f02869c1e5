import OTAFirmware
import OTAFleet
import OTASigning
import OTAStore
import Testing

/// The keys of a fleet, a bundle, and the signed records that an operator writes.
struct Fleet: Sendable {
    let operatorKey, controllerKey, bundleKey: PrivateKey
    let operators: OperatorKeys
    let verifier: Verifier
    let bundle: VerifiedBundle
    let created: Timestamp

    init() throws {
        func key(_ first: UInt8) throws -> PrivateKey { try PrivateKey(seed: (0..<32).map { first + $0 }) }
        operatorKey = try key(0)
        controllerKey = try key(32)
        bundleKey = try key(64)
        operators = OperatorKeys(try TrustStore([operatorKey.publicKey]))
        verifier = Verifier(trust: try TrustStore([bundleKey.publicKey]))
        created = try #require(Timestamp("2026-11-22T18:00:00Z"))
        let image = (0..<3000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        let manifest = try Manifest(
            imageFormat: .raw, imageSize: UInt32(image.count), securityCounter: 7, created: 1_767_225_600,
            imageDigest: SHA256.digest(of: image), version: #require(SemanticVersion("1.4.0")),
            product: #require(ProductName("acme-thermostat")))
        let signature = try #require(
            BundleSignature(.ed25519, keyID: bundleKey.publicKey.id, signature: bundleKey.sign(manifest.bytes)))
        bundle = try verifier.verify(
            SignedBundle(envelope: Envelope(manifest: manifest, signatures: [signature]), image: image))
    }

    var product: ProductName { bundle.manifest.product }

    /// Writes the bundle and its release.
    ///
    /// - Parameter change: changes the JSON of the release before the operator signs it.
    func publish(in store: any FleetStore, _ change: (String) -> String = { $0 }) async throws {
        try await store.putObject(bundle.envelope.bytes + bundle.image, digest: bundle.bundle.fileDigest)
        let text = String(decoding: try FleetRelease(of: bundle).payload(), as: UTF8.self)
        let release = try FleetRelease(payload: Array(change(text).utf8))
        let record = try operators.sign(release, with: operatorKey)
        let name = try #require(RecordName(release.id.text))
        #expect(
            try await store.write(record.encoded(), at: RecordKey(.releases, name), expecting: .absent) != .conflict)
    }

    /// Signs a rollout with one stage of 100 %, or with the given stages.
    func rollout(
        _ name: String = "t-140", stages: [Stage]? = nil, attempts: Int = 3, haltMinimum: Int = 2,
        enrolled: EnrolledDevices = .none
    ) throws -> Verified<Rollout> {
        let release = try operators.release(
            operators.sign(FleetRelease(of: bundle), with: operatorKey).encoded())
        let rollout = try Rollout(
            name: #require(RolloutName(name)), release: release, selection: Selection(product: product),
            stages: stages ?? [#require(Stage(.percent(100)))],
            halt: #require(Rollout.Halt(failedPercent: 5, minimum: haltMinimum)), attempts: attempts,
            enrolment: Enrolment(.bluetooth, enrolled), salt: Array(repeating: 0, count: 16),
            controllers: [controllerKey.publicKey], created: created, expires: created.advanced(by: 86_400 * 30))
        return try operators.rollout(operators.sign(rollout, with: operatorKey).encoded())
    }

    func write(_ rollout: Verified<Rollout>, to store: any FleetStore) async throws {
        try await write(operators.sign(rollout.value, with: operatorKey), .rollouts, rollout.value.name, to: store)
    }

    /// Writes a progress that admits all devices, as a controller would do.
    func admit(_ rollout: Verified<Rollout>, in store: any FleetStore) async throws {
        var machine = StageMachine(rollout, progress: nil, memory: SerialMemory())
        let step = machine.step([DeviceRecord](), in: .none, at: Moment(.zero, wall: created))
        let progress = try #require(step)
        try await write(SignedRecord(signing: progress, with: controllerKey), .progress, rollout.value.name, to: store)
    }

    func write(
        _ record: SignedRecord, _ bucket: Bucket, _ name: RolloutName, to store: any FleetStore
    ) async throws {
        let key = RecordKey(bucket, try #require(RecordName(name.text)))
        let revision = try await store.read(key)?.revision ?? .absent
        #expect(try await store.write(record.encoded(), at: key, expecting: revision) != .conflict)
    }
}
