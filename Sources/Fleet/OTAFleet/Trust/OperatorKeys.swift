public import OTAFirmware
public import OTASigning

/// A payload whose signature was verified. Only ``OperatorKeys`` creates a value of this type, so no code can act on an unsigned release,
/// rollout or progress.
public struct Verified<Payload: SignedPayload>: Sendable, Hashable {
    public let value: Payload
    /// The IDs of the accepted keys that signed the payload, at least one.
    public let signers: [KeyID]
    /// The SHA-256 of the signed payload. It identifies this version of the record.
    public let digest: SHA256Digest

    fileprivate init(_ value: Payload, _ record: SignedRecord, _ signers: [PublicKey]) {
        self.value = value
        self.signers = signers.map(\.id)
        digest = SHA256.digest(of: record.payload)
    }
}

/// The public keys of the operators of a fleet, from the local disk. They verify the records of a fleet, which come from a store that
/// is not trusted.
public struct OperatorKeys: Sendable {
    private let trust: TrustStore
    private let allowsDemoKey: Bool

    /// - Parameters:
    ///   - trust: the keys. A scope (``TrustScope``) limits a key to releases and rollouts of some products.
    ///   - allowsDemoKey: true if the demo key, whose private key is public, counts as an operator's key.
    public init(_ trust: TrustStore, allowsDemoKey: Bool = false) {
        self.trust = trust
        self.allowsDemoKey = allowsDemoKey
    }

    /// Verifies a release.
    ///
    /// - Throws: `record-untrusted`; the errors of ``SignedRecord`` and of the payload.
    public func release(_ bytes: [UInt8]) throws(FleetError) -> Verified<FleetRelease> { try verify(bytes) }

    /// Verifies a rollout.
    ///
    /// - Throws: `record-untrusted`; the errors of ``SignedRecord`` and of the payload.
    public func rollout(_ bytes: [UInt8]) throws(FleetError) -> Verified<Rollout> { try verify(bytes) }

    /// Verifies the reset in the record of a device (``DeviceRecord/reset``).
    ///
    /// - Throws: `record-untrusted`, also for the reset of another device; the errors of ``SignedRecord`` and of the payload.
    public func reset(_ bytes: [UInt8], of device: DeviceID) throws(FleetError) -> Verified<DeviceReset> {
        let reset: Verified<DeviceReset> = try verify(bytes)
        guard reset.value.device == device else {
            throw FleetError(.untrusted, "the reset is of the device \(reset.value.device), not of \(device)")
        }
        return reset
    }

    /// Verifies the progress of a rollout. The progress must be signed with a key of a controller that the rollout names.
    ///
    /// - Throws: `record-untrusted`, also for the progress of another rollout; `record-malformed` for a stage that the rollout does not
    ///   have;
    ///   the errors of ``SignedRecord`` and of the payload.
    public static func progress(
        _ bytes: [UInt8], of rollout: Verified<Rollout>
    ) throws(FleetError) -> Verified<RolloutProgress> {
        let record = try record(bytes, RolloutProgress.self)
        let signers = record.signers(among: rollout.value.controllers)
        guard !signers.isEmpty else {
            throw untrusted(record, "a controller of the rollout \(rollout.value.name)", rollout.value.controllers)
        }
        let progress = try RolloutProgress(payload: record.payload)
        guard progress.rollout == rollout.value.name else {
            throw FleetError(
                .untrusted, "the progress is of the rollout \(progress.rollout), not of \(rollout.value.name)")
        }
        let stages = rollout.value.stages.count
        guard progress.stage < stages else {
            throw FleetError(
                .malformed,
                "the progress of \(progress.rollout) is in stage \(progress.stage + 1), but the rollout has \(stages)")
        }
        return Verified(progress, record, signers)
    }

    /// Pauses, resumes or aborts a rollout: signs its next version.
    ///
    /// The change starts from a verified rollout, because an operator must not sign a plan that another person has put into the store. The
    /// key must be an operator's key, because gateways ignore a record without a signature by such a key.
    ///
    /// - Parameter wall: the time of the wall clock; nil if the clock is not set. It is the serial of an abort.
    /// - Throws: `record-untrusted` if the key is not an operator's key for this product; `bad-rollout-change`, `record-too-large`,
    ///   `signing-failed`.
    public func change(
        _ rollout: Verified<Rollout>, to state: Rollout.State, at wall: Timestamp? = nil, with signer: any Signer
    ) throws(FleetError) -> SignedRecord {
        try sign(rollout.value.changed(to: state, at: wall), with: signer)
    }

    /// Aborts a rollout whose record cannot be read, for example because another program has overwritten it: signs an aborted rollout with
    /// the same name. Gateways that know the rollout interrupt its updates.
    ///
    /// - Parameters:
    ///   - release: the release of the rollout, also a withdrawn one. Gateways confirm an image on trial only if it is this release.
    ///   - wall: the time of the wall clock. It is the serial of the record, so it must not be years in the past.
    /// - Throws: `record-untrusted` if the key is not an operator's key for this product; `bad-rollout-change`, `signing-failed`.
    public func abort(
        _ rollout: RolloutName, of release: Verified<FleetRelease>, at wall: Timestamp, with signer: any Signer
    ) throws(FleetError) -> SignedRecord {
        try sign(
            Rollout(aborting: rollout, of: release.value, controller: signer.publicKey, at: wall), with: signer)
    }

    /// Withdraws a release: signs its next version, in the state `withdrawn`. A gateway that has this version starts no push of the
    /// release, except to confirm an image on trial.
    ///
    /// - Throws: `record-untrusted` if the key is not an operator's key for this product; `record-too-large`, `signing-failed`.
    public func withdraw(
        _ release: Verified<FleetRelease>, with signer: any Signer
    ) throws(FleetError) -> SignedRecord { try sign(release.value.withdrawn(), with: signer) }

    /// Signs a new release or rollout. A key that is not an operator's key is refused here, because gateways would ignore the record.
    ///
    /// - Throws: `record-untrusted`, `record-too-large`, `signing-failed`.
    public func sign(_ value: some SignedPayload, with signer: any Signer) throws(FleetError) -> SignedRecord {
        guard keys(for: value.scopeProduct).contains(signer.publicKey) else {
            throw FleetError(
                .untrusted, "the key \(signer.publicKey.id) is not an operator's key of this fleet",
                hint: "give the key of an operator with --key, or add its public key to the folder of --operators")
        }
        return try SignedRecord(signing: value, with: signer)
    }

    private func verify<Payload: SignedPayload>(_ bytes: [UInt8]) throws(FleetError) -> Verified<Payload> {
        let record = try Self.record(bytes, Payload.self)
        // The scope of a key depends on the product in the payload, and the payload must not be parsed before a signature is verified.
        // So first verify the signatures with the keys of all products, and check the scopes later.
        let keys = keys(for: nil)
        let signers = record.signers(among: keys)
        guard !signers.isEmpty else { throw Self.untrusted(record, "an operator's key", keys) }
        let value = try Payload(payload: record.payload)
        let covering = self.keys(for: value.scopeProduct).filter(signers.contains)
        guard !covering.isEmpty else {
            throw FleetError(.untrusted, "the scope of the key \(signers[0].id) does not include this \(Payload.kind)")
        }
        return Verified(value, record, covering)
    }

    private static func record<Payload: SignedPayload>(
        _ bytes: [UInt8], _: Payload.Type
    ) throws(FleetError) -> SignedRecord {
        let record = try SignedRecord(parsing: bytes)
        guard record.kind == Payload.kind else {
            throw .malformed("the record is a \(record.kind), not a \(Payload.kind)")
        }
        return record
    }

    /// The operators' keys whose scope includes bundles of the product; all operators' keys if `product` is nil. A record has only Ed25519
    /// signatures, so a key that counts only with a partner of another algorithm is not an operator's key.
    private func keys(for product: ProductName?) -> [PublicKey] {
        trust.keys.filter { key in
            guard key.algorithm == .ed25519, allowsDemoKey || key.id != DemoKey.id else { return false }
            guard let scope = trust.scope(of: key.id) else { return true }
            guard scope.partner == nil else { return false }
            guard let product else { return true }
            return (scope.products?.contains(product) ?? true) && (scope.formats?.contains(.bundle) ?? true)
        }
    }

    /// The error for a record without a valid signature by one of the keys.
    private static func untrusted(_ record: SignedRecord, _ expected: String, _ keys: [PublicKey]) -> FleetError {
        func list(_ signatures: [SignedRecord.Signature]) -> String {
            signatures.map(\.keyID.description).joined(separator: ", ")
        }
        let invalid = record.signatures.filter { signature in keys.contains { $0.id == signature.keyID } }
        let reason =
            invalid.isEmpty
            ? "its signatures name the keys \(list(record.signatures))" : "its signature by \(list(invalid)) is invalid"
        let check = "check who can write to the store: otaflash fleet check --credentials FILE"
        let hint =
            switch (record.kind, invalid.isEmpty) {
            case (.progress, _):
                "start the rollout's controller, which replaces the record: otaflash fleet run --key KEY.pem"
            case (_, true): "if an operator signed it, add the public key: --operators KEY.pub.pem; if not, \(check)"
            case (_, false): check
            }
        return FleetError(.untrusted, "the \(record.kind) is not signed by \(expected); \(reason)", hint: hint)
    }
}
