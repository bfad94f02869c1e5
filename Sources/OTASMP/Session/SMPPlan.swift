import OTAUpdate

/// What a push does next, from what lies in the device's slots and from nothing else: so it may have been broken off
/// anywhere, by this run or an earlier one.
struct SMPPlan {
    enum Step {
        case upload(SMPImage)
        case mark(SMPImage, digest: [UInt8])
        /// All are marked: the device is to restart.
        case restart
        case confirm(SMPImage, digest: [UInt8])
        case leaveOnTrial
        /// It lies there, and nothing more is wanted.
        case leaveHeld
        case finish
        /// Another update is under way in the device.
        case blocked(String)
    }
    /// Where an image is.
    enum ImageState {
        case absent
        /// In the other slot.
        case held
        /// In the other slot, and the next start is its.
        case pending
        case onTrial
        case running
    }

    let images: [SMPImage]
    let ending: SMPPushOptions.Ending
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
            // What waits for the next start would run then, and not this.
            return blocker.map { .blocked($0) } ?? .finish
        }
        return ending == .trial ? .leaveOnTrial : .confirm(trial, digest: digest)
    }

    /// Whether all of the images run, for good or on trial.
    var allRun: Bool { images.allSatisfy { [.onTrial, .running].contains(state(of: $0)) } }
    /// Whether all of them run, some on trial.
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

    /// The digest by which this device lists the image: of the kind that the running one has.
    func digest(of image: SMPImage) -> [UInt8]? {
        image.digest(ofLength: list.running(image.number)?.digest?.count ?? SMPImage.usualDigestLength)
    }

    /// What an upload or a mark would be refused for; in the device's stead, and with the reason.
    private var blocker: String? {
        for image in images {
            let digest = digest(of: image)
            if let running = list.running(image.number), !running.confirmed, running.digest != digest {
                return "version \(running.version) runs and is not confirmed"
            }
            if let other = list.others(image.number).first(where: { $0.pending && $0.digest != digest }) {
                return "version \(other.version) in slot \(other.slot) waits for the next start"
            }
        }
        return nil
    }
}
