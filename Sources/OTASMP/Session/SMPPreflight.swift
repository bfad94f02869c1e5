import OTAFirmware
import OTASigning
import OTAUpdate

/// What the device would refuse late is refused early, with the reason; the device judges again all the same.
struct SMPPreflight {
    let push: SMPPush
    let device: SMPDevice
    let list: SMPImageList
    /// The longest value of the link, in bytes.
    let valueLength: Int

    /// - Returns: remarks for a person.
    func check() throws(UpdateError) -> [String] {
        var remarks: [String] = []
        for image in push.images {
            try checkDigest(image)
            try checkSize(image)
            if let remark = try checkVersion(image) { remarks.append(remark) }
            try Self.checkRoom(for: image, in: device.longestFrame(valueLength: valueLength))
        }
        try checkEnding()
        return remarks
    }

    private func checkDigest(_ image: SMPImage) throws(UpdateError) {
        let length = list.running(image.number)?.digest?.count ?? SMPImage.usualDigestLength
        guard image.digest(ofLength: length) != nil else {
            throw UpdateError(
                .wrongImageFormat,
                "the image has no digest of \(length) bytes (SHA-\(length * 8)) among its records: the device would take it "
                    + "and never list it")
        }
    }

    private func checkSize(_ image: SMPImage) throws(UpdateError) {
        let running = list.running(image.number)?.slot
        if let largest = device.slots?.largestImage(image.number, running: running), image.bytes.count > largest {
            throw UpdateError(
                .imageTooLarge, "the image has \(image.bytes.count) bytes, the device's slot takes \(largest)")
        }
    }

    private func checkVersion(_ image: SMPImage) throws(UpdateError) -> String? {
        guard let running = list.running(image.number),
            let theirs = SMPVersion(running.version), SMPVersion(image.verified.image.version) < theirs
        else { return nil }
        let remark = "version \(image.version) is lower than \(running.version), which runs"
        guard !push.options.refusesDowngrade else { throw UpdateError(.downgrade, remark) }
        return remark
    }

    /// The first chunk has to carry the image's header: over each link anew, as a later one may have shorter values.
    static func checkRoom(for image: SMPImage, in longest: Int) throws(UpdateError) {
        let opening = SMPChunk.Opening(
            length: image.bytes.count, digest: image.fileDigest, image: image.number)
        guard SMPChunk.capacity(opening: opening, offset: 0, longest: longest) >= SMPChunk.openingLength else {
            throw UpdateError(
                .unsupportedDevice,
                "packets of \(longest) bytes are too short for an upload: its first one needs the image's header, "
                    + "\(SMPChunk.openingLength) bytes, beside length and digest")
        }
    }

    private func checkEnding() throws(UpdateError) {
        let ending = push.options.ending
        guard ending != .uploadOnly else { return }
        guard device.marksImages != false else {
            throw UpdateError(
                .unsupportedDevice,
                "the device's firmware cannot mark an image for the next start, as where MCUboot loads to RAM or runs "
                    + "images in place: it can be uploaded, and no more")
        }
        if device.mode == .overwrite, ending != .permanent {
            throw UpdateError(.noTrial, "the device's bootloader overwrites the old image, so it offers no trial")
        }
    }
}
