import OTAEngine
import OTAFirmware
import OTASigning
import OTASimulator
import OTAUpdate

/// A signed image of any size, and devices that trust its key.
struct SimulatorRelease: Sendable {
    let key: PublicKey
    let version: String
    let envelope, image: [UInt8]

    init(version: String = "2.0.0", imageSize: Int, counter: UInt32 = 5) throws {
        let signer = try PrivateKey.generate()
        var random = SplitMix64(seed: UInt64(imageSize))
        let image = (0..<imageSize).map { _ in UInt8(truncatingIfNeeded: random.next()) }
        let manifest = try Manifest(
            imageFormat: .raw, imageSize: UInt32(imageSize), securityCounter: counter, created: 0,
            imageDigest: SHA256.digest(of: image), version: Example.version(version),
            product: try Example.unwrap(ProductName("demo")))
        let signature = try BundleSignature(
            .ed25519, keyID: signer.publicKey.id, signature: signer.sign(manifest.bytes))
        envelope = try Envelope(manifest: manifest, signatures: [Example.unwrap(signature)]).bytes
        self.image = image
        self.key = signer.publicKey
        self.version = version
    }

    /// Creates a device that runs version 1.0.0 and trusts the key of this release.
    func device(_ change: (inout VirtualDeviceConfiguration) -> Void = { _ in }) throws -> VirtualDevice {
        try Example.device {
            $0.trustedKeys = [key]
            change(&$0)
        }
    }

    /// Updates the device to this release and confirms it. Tries to connect at most 50 times.
    ///
    /// - Returns: the number of connection attempts, including attempts that timed out.
    /// - Throws: `TinyHost.Lost` after 50 attempts.
    @discardableResult
    func install(over transport: some Transport, at clock: VirtualTime) async throws -> Int {
        for attempt in 1...50 {
            do {
                if try await step(over: transport, at: clock, resume: attempt > 1) { return attempt }
            } catch is TinyHost.Lost {
            } catch is TinyHost.Unexpected {
            } catch let error as LinkError where error.code == .timedOut {
            }
            try await clock.sleep(for: .milliseconds(500))
        }
        throw TinyHost.Lost()
    }

    /// Runs one link of the update. Returns true if the image is now permanent.
    private func step(over transport: some Transport, at clock: VirtualTime, resume: Bool) async throws -> Bool {
        try await transport.host { host in
            let link = host.link
            return try await withThrowingTaskGroup(of: Void.self) { watchdog in
                // A lost answer must not block the update.
                watchdog.addTask {
                    try await clock.sleep(for: .seconds(90))
                    link.close()
                }
                defer { watchdog.cancelAll() }
                let running = try await host.read(VirtualGATT.version)
                let state = try await host.read(VirtualGATT.progress).first
                guard running == Array(version.utf8) else {
                    let digests = (SHA256.digest(of: envelope).bytes, SHA256.digest(of: image).bytes)
                    try await host.install(envelope, image, digests: digests, resume: resume)
                    return false
                }
                if state == 0 { return true }
                try await host.subscribe()
                _ = try await host.demand(5)
                return true
            }
        }
    }
}
