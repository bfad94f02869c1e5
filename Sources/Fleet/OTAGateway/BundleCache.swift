internal import OTAFirmware
internal import OTAFleet
internal import OTASigning
internal import OTAStore

/// The bundles of the releases. The gateway has verified each bundle with its own trusted keys, and has compared it with its release.
///
/// A push uses only a bundle from this cache. So an untrusted bundle, or the bundle of another release, never reaches a device.
struct BundleCache: Sendable {
    enum Failure: Error {
        /// The gateway cannot read the bundle from the store now. A later try can succeed.
        case absent(StoreError)
        /// The verification of the bundle failed, or it is not the bundle of the release. The gateway does not load this version of the
        /// release again.
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

    /// The time at which an absent bundle is read again; nil if no bundle is absent.
    var deadline: Duration? {
        states.values.compactMap { if case .absent(let time) = $0 { time } else { nil } }.min()
    }

    func bundle(of release: Verified<FleetRelease>) -> VerifiedBundle? {
        if case .ready(let bundle) = states[release] { bundle } else { nil }
    }

    /// Returns true if the caller must load the bundle now (``load(_:from:_:)``), and records that the bundle is being loaded.
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

    /// Removes all bundles except those of these releases. This frees memory, because a bundle can have 16 MiB.
    mutating func keep(_ releases: Set<ReleaseID>) {
        states = states.filter { releases.contains($0.key.value.id) }
    }

    /// Discards the absent bundles that are due to be read again. `mustLoad(_:at:)` then returns true for them.
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
            let verification = error as? VerificationError
            let hint =
                switch verification?.code {
                case .tooFewSignatures: FleetRelease.signaturesAdvice
                case .unsupportedOpenSSL: "run this gateway on a system with OpenSSL 3.5, such as Debian 13"
                case .cryptography: "restart this gateway"
                default: "add the signer's public key to the trusted keys of this gateway, and restart it"
                }
            throw .refused(
                FleetError(
                    .badRelease,
                    "this gateway refuses the bundle of the release \(release.id): \(verification?.context ?? "\(error)")",
                    hint: hint))
        }
    }
}
