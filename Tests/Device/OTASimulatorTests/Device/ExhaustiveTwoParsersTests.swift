import COTADevice
import OTAFirmware
import OTAUpdate
import Testing

/// Compares the two parsers of an envelope: the host's in Swift and the device core's in C. They share no code.
@Suite("Envelope parsers of the host and the device core") struct ExhaustiveTwoParsersTests {
    private static let envelopes = 400_000

    @Test("the host and the device core give the same status and manifest for 400,000 random envelopes")
    func theyAgree() throws {
        let checker = EnvelopeChecker()
        var random = SplitMix64(seed: 11)
        var seen: [UInt32: Int] = [:]
        var (longest, mostSignatures) = (0, 0)
        for _ in 0..<Self.envelopes {
            let bytes = RandomEnvelope(&random).bytes
            let envelope = try? Envelope(parsing: bytes)
            guard let status = checker.check(bytes) else {
                // Without a signature of a known algorithm, a well-formed envelope can be too short for a device.
                let isShort = envelope?.signatures.allSatisfy { $0.algorithm == nil } ?? true
                #expect(!(158...Envelope.maximumLength).contains(bytes.count) && isShort, "\(Hex.encode(bytes))")
                continue
            }
            seen[status.rawValue, default: 0] += 1
            if let envelope {
                longest = max(longest, envelope.length)
                mostSignatures = max(mostSignatures, envelope.signatures.count)
            }
            #expect(status == verdict(on: envelope), "\(Hex.encode(bytes))")
            if let manifest = checker.manifest {
                #expect(manifest == EnvelopeChecker.Manifest(envelope?.manifest), "\(Hex.encode(bytes))")
            }
        }
        #expect(longest > 60_000 && mostSignatures == 8)
        for status in [0, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14] as [UInt32] {
            #expect(seen[status, default: 0] > 100, "status \(status): \(seen)")
        }
    }

    /// Returns the status that the OTA profile requires for an envelope, from the host's parser.
    private func verdict(on envelope: Envelope?) -> ota_status {
        guard let envelope else { return OTA_MALFORMED }
        let manifest = envelope.manifest
        if !manifest.unknownCriticalFields.isEmpty { return OTA_UNKNOWN_CRITICAL }
        let trusted = envelope.signatures.compactMap { signature in
            EnvelopeChecker.keys.first { $0.id == signature.keyID.bytes }.map { (signature, $0.algorithm) }
        }
        if trusted.isEmpty || trusted.contains(where: { $0.algorithm != $1 }) { return OTA_UNTRUSTED }
        if manifest.product.text != "demo" { return OTA_WRONG_PRODUCT }
        if let hardware = manifest.hardware, !hardware.contains(EnvelopeChecker.hardware) { return OTA_WRONG_HARDWARE }
        if manifest.securityCounter < EnvelopeChecker.counter { return OTA_TOO_OLD }
        if let requires = manifest.requires, let running = SemanticVersion("1.2.3"),
            !requires.isSatisfied(by: running)
        {
            return OTA_REQUIRES_NEWER
        }
        if manifest.imageFormat != .raw { return OTA_WRONG_FORMAT }
        if manifest.imageSize > EnvelopeChecker.largestImage { return OTA_TOO_LARGE }
        if manifest.minimumBattery ?? 0 > EnvelopeChecker.battery { return OTA_BATTERY_LOW }
        return OTA_OK
    }
}

extension EnvelopeChecker.Manifest {
    fileprivate init?(_ manifest: Manifest?) {
        guard let manifest else { return nil }
        self.init(
            imageDigest: manifest.imageDigest.bytes, version: Array(manifest.version.text.utf8),
            product: Array(manifest.product.text.utf8), source: manifest.source.map { Array($0.utf8) },
            created: manifest.created, imageSize: manifest.imageSize, counter: manifest.securityCounter,
            format: manifest.imageFormat.rawValue)
    }
}
