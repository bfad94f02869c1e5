import OTAFirmware
import OTASigning
import OTAUpdate

/// Checks whether the device would refuse a bundle, before the host sends the bundle. The device checks the bundle again later.
struct Preflight {
    let bundle: VerifiedBundle
    let options: UpdateOptions

    private var manifest: Manifest { bundle.manifest }

    /// Returns whether the device runs the bundle's image.
    ///
    /// The version must be equal. If the device reports the manifest digest of the running image, the digest must be equal, too.
    func runs(on device: DeviceSnapshot) -> Bool {
        device.version == manifest.version && device.info.running.map { $0 == bundle.manifestDigest.prefix } ?? true
    }

    /// Returns whether the device certainly runs the bundle's image: an equal version does not show it without an equal digest.
    func isProven(on device: DeviceSnapshot) -> Bool {
        device.info.running == bundle.manifestDigest.prefix && runs(on: device)
    }

    /// Compares the fields of the bundle with the device's properties, and checks that the device supports `options`.
    ///
    /// - Returns: the warning `downgrade` for the user if the bundle's version is lower than the running version; nil if it is not lower.
    /// - Throws: the error of the first field or option that does not fit the device.
    func check(_ device: DeviceSnapshot) throws(UpdateError) -> UpdateProgress? {
        let info = device.info
        guard info.product == manifest.product.text else {
            throw UpdateError(.wrongProduct, "the bundle is for \(manifest.product), the device is \(info.product)")
        }
        if let hardware = manifest.hardware, !hardware.contains(info.hardware) {
            throw UpdateError(
                .wrongHardware, "the bundle is for hardware \(hardware), the device has revision \(info.hardware)")
        }
        guard manifest.securityCounter >= info.securityCounter else {
            throw UpdateError(
                .counterTooLow,
                "the bundle's security counter is \(manifest.securityCounter), the device's is \(info.securityCounter)")
        }
        if let requires = manifest.requires, !requires.isSatisfied(by: device.version) {
            throw UpdateError(
                .requiresNewer,
                "the bundle requires version \(requires) to run first, the device runs \(device.version)")
        }
        guard info.imageFormat == DeviceInfo.anyImageFormat || info.imageFormat == manifest.imageFormat.rawValue else {
            throw UpdateError(
                .wrongImageFormat,
                "the image is in the format \(name(of: manifest.imageFormat.rawValue)), the device boots \(name(of: info.imageFormat))"
            )
        }
        guard manifest.imageSize <= info.largestImage else {
            throw UpdateError(
                .imageTooLarge,
                "the image has \(manifest.imageSize) bytes, the device accepts at most \(info.largestImage)")
        }
        if let least = manifest.minimumBattery, let level = device.battery, level < least {
            throw UpdateError(.batteryLow, "the battery is at \(level) %, the bundle requires \(least) %")
        }
        _ = try bundle.envelope(for: info)
        try checkEnding(info)
        return try checkVersion(device)
    }

    /// Returns the transfer that the push would do. `check(_:)` must have succeeded.
    ///
    /// The push can still start at a lower offset than the plan. The offset in Info is only for display: the push uses the offset in the
    /// answer to BEGIN. This answer also has the CRC-32 of the bytes before that offset. If it is wrong, the push starts at 0.
    func plan(for device: DeviceSnapshot) -> UpdatePlan {
        let size = Int(manifest.imageSize)
        let held = device.info.held
        let offset = held?.offset ?? 0
        guard options.resume != .never, held?.manifestDigestPrefix == bundle.manifestDigest.prefix, offset <= size
        else {
            return UpdatePlan(resumeFrom: 0, bytes: size, discards: offset)
        }
        return UpdatePlan(resumeFrom: offset, bytes: size - offset, discards: 0)
    }

    private func checkEnding(_ info: DeviceInfo) throws(UpdateError) {
        switch options.ending {
        case .confirm, .trial:
            guard info.trialSeconds > 0 else {
                throw UpdateError(.noTrial, "the device's bootloader cannot roll back, so the device has no trial")
            }
        case .permanent:
            guard info.trialSeconds == 0 else {
                throw UpdateError(.trialAvailable, "the device offers a trial of \(info.trialSeconds) s")
            }
        // This case cannot occur, because the initializer of `ProfileConversation` refuses it.
        case .uploadOnly: break
        }
    }

    private func checkVersion(_ device: DeviceSnapshot) throws(UpdateError) -> UpdateProgress? {
        guard device.version.takesPrecedence(over: manifest.version) else { return nil }
        let (version, running) = ("\(manifest.version)", "\(device.version)")
        try options.checkDowngrade(
            "version \(version) is lower than \(running), the running version", bundle.downgradeRefusal)
        return .downgrade(version: version, running: running)
    }

    private func name(of format: UInt8) -> String {
        switch ImageFormat(rawValue: format) {
        case .raw: "raw"
        case .espressif: "ESP-IDF"
        case .mcuboot: "MCUboot"
        case .nordicDFU: "Nordic DFU"
        case nil: "number \(format)"
        }
    }
}

extension VerifiedBundle {
    /// Returns the envelope to send to a device: the manifest, and the signatures by the keys that the device trusts. The device ignores
    /// other signatures, and its buffer may be too small for them.
    ///
    /// - Throws: `untrustedByDevice` if the device trusts none of the signers; `envelopeTooLarge` if the envelope does not fit in the
    ///   device's buffer.
    func envelope(for info: DeviceInfo) throws(UpdateError) -> Envelope {
        let signatures = envelope.signatures.filter { info.keys.contains($0.keyID) }
        guard let envelope = try? Envelope(manifest: manifest, signatures: signatures) else {
            let signers = envelope.signatures.map(\.keyID.description).joined(separator: ", ")
            let keys = info.keys.map(\.description).joined(separator: ", ")
            throw UpdateError(
                .untrustedByDevice, "the bundle is signed by \(signers), the device trusts \(keys)",
                remedy: .signature(keys: info.keys))
        }
        guard envelope.length <= info.longestEnvelope else {
            let count = signatures.count == 1 ? "its signature" : "its \(signatures.count) signatures"
            throw UpdateError(
                .envelopeTooLarge,
                "the manifest and \(count) by keys of the device have \(envelope.length) bytes, the device accepts at most "
                    + "\(info.longestEnvelope)")
        }
        return envelope
    }
}
