internal import OTAFirmware
internal import OTAFleet
internal import OTASigning
internal import OTAStore

/// The bundles of the releases, verified with the gateway's own trusted keys. A push needs a bundle from here, so a bundle that the gateway
/// does not trust, or that is not the bundle of the release, never reaches a device.
struct BundleShelf: Sendable {
    enum Failure: Error {
        /// The object cannot be read now. A later try can succeed.
        case absent(StoreError)
        /// The bundle is not valid for the release. Only another release helps.
        case refused(FleetError)
    }

    private enum State {
        case loading
        case ready(VerifiedBundle)
        case absent(until: Duration)
        case refused
    }

    private static let retryTime = Duration.seconds(60)
    private var states: [Verified<FleetRelease>: State] = [:]

    /// The time at which an absent bundle is read again.
    var deadline: Duration? {
        states.values.compactMap { if case .absent(let time) = $0 { time } else { nil } }.min()
    }

    func bundle(of release: Verified<FleetRelease>) -> VerifiedBundle? {
        if case .ready(let bundle) = states[release] { bundle } else { nil }
    }

    /// Returns whether the caller must load the bundle now (``load(_:from:_:)``).
    mutating func mustLoad(_ release: Verified<FleetRelease>, at now: Duration) -> Bool {
        switch states[release] {
        case .loading, .ready, .refused: return false
        case .absent(let time) where time > now: return false
        case .absent, nil:
            states[release] = .loading
            return true
        }
    }

    mutating func record(
        _ result: Result<VerifiedBundle, Failure>, of release: Verified<FleetRelease>, at now: Duration
    ) {
        switch result {
        case .success(let bundle): states[release] = .ready(bundle)
        case .failure(.absent): states[release] = .absent(until: now + Self.retryTime)
        case .failure(.refused): states[release] = .refused
        }
    }

    /// Removes the bundles of all other releases, because a bundle can have 16 MiB.
    mutating func keep(_ releases: Set<ReleaseID>) {
        states = states.filter { releases.contains($0.key.value.id) }
    }

    /// Makes the absent bundles due whose time has come.
    mutating func forgetAbsent(at now: Duration) {
        states = states.filter { if case .absent(let time) = $0.value { time > now } else { true } }
    }

    /// Reads a bundle from the store, verifies it, and compares it with the release.
    static func load(
        _ release: FleetRelease, from store: any FleetStore, _ verifier: Verifier
    ) async throws(Failure) -> VerifiedBundle {
        let bytes: [UInt8]
        do throws(StoreError) {
            guard let object = try await store.object(release.bundleDigest) else {
                throw StoreError(
                    .unavailable, "the store does not have the bundle of the release \(release.id)",
                    hint: "publish the bundle again")
            }
            bytes = object
        } catch {
            throw .absent(error)
        }
        do {
            let bundle = try verifier.verify(SignedBundle(parsing: bytes))
            try release.check(bundle)
            return bundle
        } catch let error as FleetError {
            throw .refused(error)
        } catch {
            let text = (error as? VerificationError)?.context ?? "\(error)"
            throw .refused(
                FleetError(
                    .badRelease, "this gateway refuses the bundle of the release \(release.id): \(text)",
                    hint: "add the signer's public key to the trusted keys of this gateway, and restart it"))
        }
    }
}
