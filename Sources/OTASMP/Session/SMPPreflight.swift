import OTAFirmware
import OTASigning
import OTAUpdate

/// Checks whether the device would refuse a push, before anything is sent. The device itself checks again later.
struct SMPPreflight {
    let push: SMPPush
    let device: SMPDevice
    let list: SMPImageList
    /// The maximum length of a sent value, in bytes.
    let valueLength: Int

    /// Checks all images and the ending.
    ///
    /// - Returns: warnings for the user.
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
        let length = list.running(image.number)?.digest?.count ?? SMPImage.usualDigestLength
        guard image.digest(ofLength: length) != nil else {
            throw UpdateError(
                .wrongImageFormat,
                "the image has no SHA-\(length * 8) digest among its records, so the device would accept the image and never list "
                    + "it; sign the image again with --sha \(length * 8)")
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
        guard let running = list.running(image.number),
            let theirs = SMPVersion(running.version), SMPVersion(image.verified.image.version) < theirs
        else { return nil }
        guard !push.options.refusesDowngrade else {
            throw UpdateError(
                .downgrade, "version \(image.version) is lower than \(running.version), the running version")
        }
        return .downgrade(version: image.version, running: running.version)
    }

    /// Checks that the header of the image fits the first chunk.
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
                "the device's firmware cannot mark an image for boot, as if MCUboot loads images to RAM or runs them in place; "
                    + "only an upload is possible")
        }
        if device.mode == .overwrite, ending != .permanent {
            throw UpdateError(.noTrial, "the device's bootloader overwrites the old image, so the device has no trial")
        }
    }
}
