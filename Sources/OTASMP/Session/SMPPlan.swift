import OTAUpdate

/// Determines the next step of a push from the device's image list alone. So a push can continue after an interruption at any step.
struct SMPPlan {
    enum Step {
        case upload(SMPImage)
        case mark(SMPImage, digest: [UInt8])
        /// All images are marked for boot, so the device must restart.
        case restart
        case confirm(SMPImage, digest: [UInt8])
        case leaveOnTrial
        /// The images are on the device and are not marked. For an upload-only task, this is the end.
        case leaveHeld
        case finish
        /// Another update is in progress on the device.
        case blocked(UpdateError)
    }
    /// The state of an image on the device: its slot and its mark.
    enum ImageState {
        case absent
        /// In the other slot.
        case held
        /// In the other slot, and marked for the next boot.
        case pending
        case onTrial
        case running
    }

    let images: [SMPImage]
    let ending: UpdateOptions.Ending
    let list: SMPImageList

    var step: Step {
        let states = images.map { ($0, state(of: $0)) }
        func first(_ state: ImageState) -> SMPImage? { states.first { $0.1 == state }?.0 }
        if let absent = first(.absent) { return blocker.map { .blocked($0) } ?? .upload(absent) }
        if ending == .uploadOnly { return first(.running) == nil || first(.held) != nil ? .leaveHeld : .finish }
        if let held = first(.held), let digest = digest(of: held) {
            return blocker.map { .blocked($0) } ?? .mark(held, digest: digest)
        }
        if first(.pending) != nil { return .restart }
        guard let trial = first(.onTrial), let digest = digest(of: trial) else {
            // An image that is marked for the next boot would replace the running one.
            return blocker.map { .blocked($0) } ?? .finish
        }
        return ending == .trial ? .leaveOnTrial : .confirm(trial, digest: digest)
    }

    /// True if all images run, confirmed or on trial.
    var allRun: Bool { images.allSatisfy { [.onTrial, .running].contains(state(of: $0)) } }
    /// True if all images run, and at least one is on trial.
    var runOnTrial: Bool { allRun && images.contains { state(of: $0) == .onTrial } }
    var somePending: Bool { images.contains { state(of: $0) == .pending } }

    func state(of image: SMPImage) -> ImageState {
        guard let digest = digest(of: image) else { return .absent }
        if let running = list.running(image.number), running.digest == digest {
            return running.confirmed ? .running : .onTrial
        }
        guard let held = list.others(image.number).first(where: { $0.digest == digest }) else { return .absent }
        return held.pending ? .pending : .held
    }

    /// Returns the digest by which this device lists an image. It has the same length as the digest of the running image.
    func digest(of image: SMPImage) -> [UInt8]? {
        image.digest(ofLength: list.running(image.number)?.digest?.count ?? SMPImage.usualDigestLength)
    }

    /// The error with which the device would refuse an upload or a mark; nil if there is none.
    private var blocker: UpdateError? {
        for image in images {
            let digest = digest(of: image)
            if let running = list.running(image.number), !running.confirmed, running.digest != digest {
                return UpdateError(.inTrial, "version \(running.version) runs and is not confirmed")
            }
            if let other = list.others(image.number).first(where: { $0.pending && $0.digest != digest }) {
                return UpdateError(
                    .inTrial, "version \(other.version) in slot \(other.slot) is marked for the next boot",
                    isMarkedForBoot: true)
            }
        }
        return nil
    }
}
