import OTACommands
import OTAFirmware
import OTAFleet
import OTAGateway
import OTASigning
import OTAStore

/// The record of a rollout in a store, which another program can have overwritten.
struct RolloutRecord {
    let name: RolloutName
    /// The stored bytes; nil if the store has no such record.
    private let stored: StoredRecord?

    /// Reads only this record from the store.
    ///
    /// - Throws: `StoreError`.
    init(_ name: RolloutName, in store: some FleetStore) async throws {
        self.name = name
        stored = try await store.read(RecordKey(name))
    }

    /// The revision that a write of the record expects.
    var revision: Revision { stored?.revision ?? .absent }

    /// Returns the rollout.
    ///
    /// - Throws: `no-such-rollout`; `FleetError` if the rollout is not signed by an operator.
    func rollout(_ operators: OperatorKeys) throws -> Verified<Rollout> {
        guard let stored else {
            throw Failure(
                "no-such-rollout", .noInput, "the store has no rollout \(name)",
                hints: ["list the rollouts: otaflash rollout list", "if the record was deleted, \(endHint)"])
        }
        let rollout: Verified<Rollout>
        do throws(FleetError) { rollout = try operators.rollout(stored.bytes) } catch {
            // For these two codes, no option and no other release of otaflash makes the record valid.
            let isDamaged = error.code == .malformed || error.code == .tooLarge
            let hint = isDamaged ? endHint : "\(error.failure.hint); if another program wrote the record, \(endHint)"
            throw FleetError(error.code, error.context, hint: hint).naming(stored)
        }
        guard rollout.value.name == name else {
            throw FleetError(.untrusted, "it contains the rollout \(rollout.value.name)", hint: endHint).naming(stored)
        }
        return rollout
    }

    /// Checks that a key has signed the record, for a command that knows no other operator's key. Without this check, the error of
    /// ``rollout(_:)`` would blame the record, and not the key.
    ///
    /// A record that is missing or cannot be parsed passes.
    ///
    /// - Throws: `record-untrusted`.
    func requireSignature(by signer: any Signer) throws(FleetError) {
        let key = signer.publicKey.id
        guard let stored, let record = try? SignedRecord(parsing: stored.bytes) else { return }
        let signers = record.signatures.map(\.keyID)
        guard !signers.contains(key) else { return }
        let list = signers.map(\.description).joined(separator: ", ")
        throw FleetError(
            .untrusted,
            "the key \(key) of --key has not signed the rollout \(name), and this command knows no other operator's "
                + "key; the record \(stored.key), revision \(stored.revision), names the keys \(list)",
            hint: "give the key of the operator who created the rollout: --key KEY.pem; or, if \(key) is the key of "
                + "another operator, give the public keys of all operators: --operators KEY.pub.pem; "
                + "if another program wrote the record, \(endHint)")
    }

    private var endHint: String { "end the rollout: otaflash rollout abort \(name) --release ID --key KEY.pem" }

    /// Returns the next version of the rollout, signed.
    ///
    /// - Parameter release: the release for an abort if the record cannot be read; nil: such a record is an error.
    /// - Throws: the errors of ``rollout(_:)`` and of ``OperatorKeys``; the errors of a missing release; `StoreError`.
    func changed(
        to state: Rollout.State, release: ReleaseID?, _ operators: OperatorKeys, _ signer: any Signer,
        in store: some FleetStore
    ) async throws -> SignedRecord {
        let present: Verified<Rollout>
        do { present = try rollout(operators) } catch {
            guard state == .aborted, let release else { throw error }
            guard let now = WallClock.now() else {
                throw FleetError(.clockNotSet, "the clock of this machine is not set")
            }
            return try operators.abort(name, of: try await store.release(release, operators).0, at: now, with: signer)
        }
        return try operators.change(present, to: state, at: WallClock.now(), with: signer)
    }
}

extension FleetStore {
    /// Reads only this rollout from the store.
    ///
    /// - Throws: `no-such-rollout`; `FleetError` if the rollout is not signed by an operator; `StoreError`.
    func rollout(_ name: RolloutName, _ operators: OperatorKeys) async throws -> Verified<Rollout> {
        try await RolloutRecord(name, in: self).rollout(operators)
    }
}
