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

    /// Checks each image. Then checks that the device can do what the push requires after the upload (`UpdateOptions.Ending`): start the
    /// image on trial, or install it permanently. A push with `uploadOnly` requires nothing after the upload.
    ///
    /// - Returns: warnings for the user.
    /// - Throws: the error of the first check that fails.
    func check() throws(UpdateError) -> [UpdateProgress] {
        var remarks: [UpdateProgress] = []
        for image in push.images {
            try checkDigest(image)
            try checkSize(image)
            if let remark = try checkVersion(image) { remarks.append(remark) }
            try checkRoom(image)
        }
        try checkEnding()
        return remarks
    }

    private func checkDigest(_ image: SMPImage) throws(UpdateError) {
        let length = list.digestLength(image.number)
        guard image.digest(ofLength: length) != nil else {
            throw UpdateError(
                .wrongImageFormat,
                "the image has no SHA-\(length * 8) digest among its records, so the device would accept the image and never list it",
                remedy: .digest(bits: length * 8))
        }
    }

    private func checkSize(_ image: SMPImage) throws(UpdateError) {
        let running = list.running(image.number)?.slot
        if let largest = device.slots?.largestImage(image.number, running: running), image.bytes.count > largest {
            throw UpdateError(
                .imageTooLarge, "the image has \(image.bytes.count) bytes, the device's slot has room for \(largest)")
        }
    }

    private func checkVersion(_ image: SMPImage) throws(UpdateError) -> UpdateProgress? {
        guard let running = list.running(image.number), let theirs = SMPVersion(running.version) else {
            let mustNotBeLower = push.options.refusesDowngrade || image.verified.downgradeRefusal != nil
            guard mustNotBeLower, !push.options.acceptsUncheckedTarget else { return nil }
            throw UpdateError(
                .targetUnchecked,
                "the device does not report the version of its running image \(image.number), so it is unknown whether "
                    + "\(image.version) is lower")
        }
        guard SMPVersion(image.verified.image.version) < theirs else { return nil }
        try push.options.checkDowngrade(
            "version \(image.version) is lower than \(running.version), the running version",
            image.verified.downgradeRefusal)
        return .downgrade(version: image.version, running: running.version)
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
        guard ending != .uploadOnly else { return }
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
