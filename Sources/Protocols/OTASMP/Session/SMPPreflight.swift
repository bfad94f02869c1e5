import OTAFirmware
import OTASigning
import OTAUpdate

/// Checks whether the device can install the images of a push, before the host sends an image.
struct SMPPreflight {
    let push: SMPPush
    let device: SMPDevice
    let list: SMPImageList
    /// The maximum length in bytes of a value that the host can send on this link.
    let valueLength: Int
    /// False if another program of the device receives the image, so that the packets' length is not known yet.
    var checksPackets = true
    /// The length in bytes of the digests in the list of a firmware loader; nil if it lists none, or if the application answers.
    var loaderDigestLength: Int?

    /// Checks each image. Then checks that the device can do what the push requires after the upload (`UpdateOptions.Ending`): start the
    /// image on trial, or install it permanently. A push with `uploadOnly` requires nothing after the upload.
    ///
    /// - Returns: warnings for the user.
    /// - Throws: the error of the first check that fails.
    func check() throws(UpdateError) -> [UpdateProgress] {
        var remarks: [UpdateProgress] = []
        for image in push.images {
            if device.hasFirmwareLoader { try checkBoot(image) }
            try checkDigest(image)
            try checkSize(image)
            if let remark = try checkVersion(image) { remarks.append(remark) }
            if checksPackets { try checkRoom(image) }
        }
        try checkEnding()
        return remarks
    }

    private func checkDigest(_ image: SMPImage) throws(UpdateError) {
        // A loader lists itself or the application with a digest of the length that it uses. Nordic's loader uses SHA-512 for the pure form of
        // Ed25519 (sdk-nrf-bm, `IMAGE_SHA_LEN`). The application does not report this length.
        if device.hasFirmwareLoader, loaderDigestLength == nil {
            guard !image.hasDigest else { return }
            throw UpdateError(
                .wrongImageFormat, "the image has no digest among its records, so the device could not check it",
                remedy: .digest(bits: SMPImage.usualDigestLength * 8))
        }
        let length = loaderDigestLength ?? list.digestLength(image.number)
        guard image.digest(ofLength: length) != nil else {
            throw UpdateError(
                .wrongImageFormat,
                "the image has no SHA-\(length * 8) digest among its records, so the device would accept the image and never list it",
                remedy: .digest(bits: length * 8))
        }
    }

    /// Checks that a bootloader can start the image where the firmware loader has written it. MCUboot decrypts and decompresses an image only
    /// when it copies it from another slot (`boot/zephyr/firmware_loader.c`).
    private func checkBoot(_ image: SMPImage) throws(UpdateError) {
        var reason: String?
        if image.verified.image.isEncrypted { reason = "the image is encrypted" }
        if image.unpackedDigest != nil { reason = "the image is compressed" }
        if !image.verified.image.isBootable { reason = "the image is marked as not bootable" }
        guard let reason else { return }
        throw UpdateError(
            .wrongImageFormat, "\(reason), and the device has one slot, whose bootloader cannot start such an image")
    }

    private func checkSize(_ image: SMPImage) throws(UpdateError) {
        // The upload replaces the application in slot 0.
        let running = device.hasFirmwareLoader ? 1 : list.running(image.number)?.slot
        if let largest = device.slots?.largestImage(image.number, running: running), image.bytes.count > largest {
            throw UpdateError(
                .imageTooLarge, "the image has \(image.bytes.count) bytes, the device's slot has room for \(largest)")
        }
    }

    private func checkVersion(_ image: SMPImage) throws(UpdateError) -> UpdateProgress? {
        let identified = device.hasFirmwareLoader ? device.info?.plainVersion : nil
        guard let running = list.running(image.number)?.version ?? identified, let theirs = SMPVersion(running) else {
            let mustNotBeLower = push.options.refusesDowngrade || image.verified.downgradeRefusal != nil
            guard mustNotBeLower, !push.options.acceptsUncheckedTarget else { return nil }
            throw UpdateError(
                .targetUnchecked,
                "the device does not report the version of its running image \(image.number), so it is unknown whether "
                    + "\(image.version) is lower")
        }
        guard SMPVersion(image.verified.image.version) < theirs else { return nil }
        try push.options.checkDowngrade(
            "version \(image.version) is lower than \(running), the running version",
            image.verified.downgradeRefusal)
        return .downgrade(version: image.version, running: running)
    }

    /// Checks that the first packet of the upload has room for the image's header.
    private func checkRoom(_ image: SMPImage) throws(UpdateError) {
        let longest = device.longestFrame(valueLength: valueLength)
        guard image.canBeOpened(inPacketsOf: longest) else {
            throw UpdateError(
                .unsupportedDevice,
                "packets of \(longest) bytes are too short for an upload: the first one contains the image's header, "
                    + "\(SMPChunk.openingLength) bytes, its length and its digest")
        }
    }

    private func checkEnding() throws(UpdateError) {
        let ending = push.options.ending
        if device.hasFirmwareLoader, ending == .uploadOnly {
            throw UpdateError(
                .unsupportedDevice,
                "the device has one slot: an upload replaces the application, so it cannot be only stored")
        }
        guard ending != .uploadOnly else { return }
        if device.hasFirmwareLoader, ending != .permanent {
            throw UpdateError(.noTrial, "the device has one slot, so it cannot keep its old image for a rollback")
        }
        guard device.marksImages != false else {
            throw UpdateError(
                .unsupportedDevice,
                "the device cannot mark an image for boot, as in the serial recovery of MCUboot, or if MCUboot loads images to RAM or "
                    + "runs them in place; only an upload is possible",
                remedy: .uploadOnly)
        }
        guard list.reportsRunning else {
            throw UpdateError(
                .unsupportedDevice,
                "the device's image list does not show which image runs, so the result of a restart cannot be checked; only an "
                    + "upload is possible", remedy: .uploadOnly)
        }
        if device.mode == .overwrite, ending != .permanent {
            throw UpdateError(.noTrial, "the device's bootloader overwrites the old image, so the device has no trial")
        }
    }
}
