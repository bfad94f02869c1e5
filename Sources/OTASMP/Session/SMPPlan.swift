import OTAUpdate

/// Determines the next step of a push from the device's image list. No other state is necessary, so a push can continue after any
/// interruption.
struct SMPPlan {
    /// The next step of a push.
    enum Step {
        /// Upload the image.
        case upload(SMPImage)
        /// Mark the image for boot. `digest` identifies the image in the device's image list.
        case mark(SMPImage, digest: [UInt8])
        /// Restart the device, because no image is left to upload or to mark, and at least one marked image does not run yet.
        case restart
        /// Confirm the image on trial. `digest` identifies the image in the device's image list.
        case confirm(SMPImage, digest: [UInt8])
        /// End the push, and leave the image on trial.
        case leaveOnTrial
        /// End the push, because all images are on the device, and not all of them run. This step occurs only with
        /// `UpdateOptions.Ending.uploadOnly`.
        case leaveHeld
        /// End the push, because nothing is left to do.
        case finish
        /// Fail with this error, because another update is in progress on the device.
        case blocked(UpdateError)
    }
    /// The state of an image on the device.
    enum ImageState {
        /// The image list does not have the image.
        case absent
        /// The image does not run, and is not marked for boot.
        case held
        /// The image does not run, and is marked for the next boot.
        case pending
        /// The image runs and is not confirmed.
        case onTrial
        /// The image runs and is confirmed.
        case running
    }

    let images: [SMPImage]
    let ending: UpdateOptions.Ending
    let list: SMPImageList

    /// The next step of the push.
    var step: Step {
        let states = images.map { ($0, state(of: $0)) }
        func first(_ state: ImageState) -> SMPImage? { states.first { $0.1 == state }?.0 }
        if let absent = first(.absent) { return blocker.map { .blocked($0) } ?? .upload(absent) }
        if ending == .uploadOnly, runOnTrial { return .leaveOnTrial }
        if ending == .uploadOnly { return allRun ? .finish : .leaveHeld }
        if let held = first(.held), let digest = digest(of: held) {
            return blocker.map { .blocked($0) } ?? .mark(held, digest: digest)
        }
        if first(.pending) != nil { return .restart }
        guard let trial = first(.onTrial), let digest = digest(of: trial) else {
            // All images run and are confirmed. If another image is marked for the next boot, that image would replace one of them. In
            // this case, `blocker` has the error.
            return blocker.map { .blocked($0) } ?? .finish
        }
        return ending == .trial ? .leaveOnTrial : .confirm(trial, digest: digest)
    }

    /// The number of image bytes that the push has to send.
    var missingBytes: Int {
        images.reduce(0) { sum, image in
            if case .absent = state(of: image) { sum + image.bytes.count } else { sum }
        }
    }

    /// True if all images run, confirmed or on trial.
    var allRun: Bool { images.allSatisfy { [.onTrial, .running].contains(state(of: $0)) } }
    /// True if all images run, and at least one is on trial.
    var runOnTrial: Bool { allRun && images.contains { state(of: $0) == .onTrial } }
    /// True if at least one image is marked for the next boot and does not run yet.
    var somePending: Bool { images.contains { state(of: $0) == .pending } }

    /// Returns the state of an image on the device.
    func state(of image: SMPImage) -> ImageState {
        guard let digest = digest(of: image) else { return .absent }
        if let running = list.running(image.number), running.digest == digest {
            return running.confirmed ? .running : .onTrial
        }
        guard let held = list.others(image.number).first(where: { $0.digest == digest }) else { return .absent }
        return held.pending ? .pending : .held
    }

    /// Returns the digest that identifies an image in the device's image list; nil if the image has no digest of the right length.
    ///
    /// A device uses the same digest length for all images. Therefore the right length is the length of the running image's digest.
    func digest(of image: SMPImage) -> [UInt8]? {
        image.digest(ofLength: list.running(image.number)?.digest?.count ?? SMPImage.usualDigestLength)
    }

    /// Returns the error for another image that is marked for the next boot.
    ///
    /// - Parameter addition: text at the end of the message.
    static func marked(_ entry: SMPImageList.Entry, _ addition: String = "") -> UpdateError {
        let kind = entry.permanent ? ", without a trial" : ""
        return UpdateError(
            .inTrial, "version \(entry.version) in slot \(entry.slot) is marked for the next boot\(kind)\(addition)",
            isMarkedForBoot: true, isMarkedPermanently: entry.permanent)
    }

    /// The error if another update is in progress on the device: with an image number of this push, another image is on trial or marked for
    /// boot. Nil if no other update is in progress.
    ///
    /// During another update, the device would refuse an upload or a mark.
    private var blocker: UpdateError? {
        for image in images {
            let digest = digest(of: image)
            if let running = list.running(image.number), !running.confirmed, running.digest != digest {
                return UpdateError(.inTrial, "version \(running.version) runs and is not confirmed")
            }
            if let other = list.others(image.number).first(where: { $0.pending && $0.digest != digest }) {
                return Self.marked(other)
            }
        }
        return nil
    }
}
