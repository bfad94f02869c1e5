import OTAUpdate

/// The uploads of a push.
extension SMPConversation {
    /// Begins or resumes the upload of an image.
    mutating func begin(_ image: SMPImage) {
        guard var push else { return }
        enter(.sending)
        if push[image].isComplete { return notListed(image) }
        if push.toErase?.number == image.number { return erase(image) }
        let isFirst = !push[image].hasBegun
        if push.underWay?.number != image.number {
            push.underWay = image
            push.wasOpened = false
            push[image].hasBegun = true
            shared.ledger?.open(image: image.number, bytes: image.bytes.count)
            report(.phase(.transfer))
            if push.images.count > 1 { report(.note("image \(image.number), version \(image.version)")) }
        }
        push.hasActed = true
        self.push = push
        if isFirst, push.options.resume == .never { return startOver(image) }
        open(image)
    }

    /// Handles an image that the device has received completely but does not list.
    ///
    /// If the received bytes may be damaged (`SMPPush.Record.isUncertain`), sends the image again from 0, but only once. In all other cases,
    /// the session fails.
    mutating func notListed(_ image: SMPImage) {
        guard let push, push[image].isUncertain, !push[image].wasSentAgain else {
            return fail(
                UpdateError(
                    .wrongImageFormat,
                    "the device has received every byte of the image and does not list it: its bootloader cannot boot it"
                )
            )
        }
        self.push?[image].wasSentAgain = true
        report(.note("the device does not list the image that it received; the image is sent again from the beginning"))
        startOver(image)
    }

    /// Erases the slot of an image, and then sends the image from 0.
    ///
    /// Without the erase, some servers would resume the damaged upload at its last offset each time. They would never request the bytes
    /// from 0 on.
    private mutating func startOver(_ image: SMPImage) {
        push?[image].isComplete = false
        push?.toErase = image
        erase(image)
    }

    /// Never erases a slot of a device with a firmware loader: the other slot may hold the loader itself.
    private mutating func erase(_ image: SMPImage) {
        guard !device.hasFirmwareLoader else { return begin(afterErasing: image) }
        guard let slot = (link.list ?? SMPImageList([])).slotToErase(image.number) else {
            return begin(afterErasing: image)
        }
        erase(slot: slot)
    }

    /// Requests the erase of a slot.
    ///
    /// The request for slot 1 has no slot number, because older servers do not support the number and always erase slot 1.
    mutating func erase(slot: Int) {
        ask(.erase(slot: slot == 1 ? nil : slot))
    }

    /// Begins the upload after the answer to an erase request. The upload begins even if the device refused the erase, because some
    /// servers refuse to erase an empty slot.
    mutating func begin(afterErasing image: SMPImage) {
        push?.toErase = nil
        push?.expectsEmptySlot = true
        shared.ledger?.sentOffset = 0
        shared.ledger?.acknowledgedOffset = 0
        begin(image)
    }

    mutating func open(_ image: SMPImage) {
        let longest = device.packetLimit.length(of: device.longestFrame(valueLength: valueLength))
        guard image.canBeOpened(inPacketsOf: longest) else {
            return breakLink(
                LinkError(.lost, "packets of \(longest) bytes are too short for an upload", remedy: .longerValues))
        }
        let before = shared.ledger?.statistics.chunkSize ?? 0
        // The report shows the longest packet of all links. A later link may have a smaller MTU, so this does not reduce the value.
        shared.ledger?.statistics.chunkSize = device.packetLimit.length(of: max(longest, before))
        if !shared.link.preservesMessageBoundaries {
            shared.ledger?.statistics.mtu = shared.link.maximumValueLength + 3
        }
        let delivery: SMPUpload.Delivery =
            longest > valueLength
            ? .fragmented
            : shared.link.preservesMessageBoundaries ? .lossy(discardTime: shared.link.discardTime) : .whole
        pump(
            SMPUpload(
                image.bytes, digest: image.fileDigest, image: image.number, longestFrame: longest,
                packetLimit: device.packetLimit,
                window: device.window ?? SMPWindow(limit: device.mostChunks, delivery: delivery), delivery: delivery))
    }

    /// Sends the image again from 0, because the bytes that the device received do not have the file's digest. A second mismatch fails the
    /// session.
    ///
    /// Only some servers compute the digest. On other devices, the bootloader detects the damaged image after the restart.
    private mutating func digestMismatched() {
        guard let push, let image = push.underWay, push.digestMismatches == 0 else {
            return fail(UpdateError(.digestMismatch, "the device received another file than the sent one, twice"))
        }
        self.push?.digestMismatches += 1
        report(.note("the device received another file than the sent one; the image is sent again"))
        startOver(image)
    }

    mutating func complete(_ upload: SMPUpload) {
        guard upload.match != false else { return digestMismatched() }
        arrived()
        link.list = nil
        askNext()
    }

    /// Records that the device has received the whole image. The device's last offset or image list shows this.
    mutating func arrived() {
        if let image = push?.underWay { push?[image].isComplete = true }
        uploaded()
        progressed()
        report(.phase(.verify))
    }

    /// Requests the image list. This is necessary if all bytes of the image were sent, but the device reports that no upload is in
    /// progress.
    ///
    /// The list shows whether the device has the whole image, or has lost the image at a restart.
    mutating func stateLost(_ upload: SMPUpload) {
        // A rewind before this answer may have lowered the offset. But all bytes were sent, so a listed image needs no upload.
        shared.ledger?.sentOffset = upload.bytes.count
        push?.stateLosses += 1
        guard let push, push.stateLosses <= Self.mostStateLosses else {
            return fail(
                UpdateError(
                    .protocolViolation, "the device discards each complete upload and does not list the image")
            )
        }
        link.list = nil
        askNext()
    }

    /// The maximum of `SMPPush.stateLosses`. One more loss fails the session.
    private static let mostStateLosses = 3
}
