import OTAFirmware
import OTAUpdate

/// Determines the next step of a push from the device's image list, and from what this session has already done (``SMPPush``). A push of a
/// new session begins without this history, so it can continue after any interruption.
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
        case confirm(SMPImage, digest: [UInt8]?)
        /// End the push, and leave the image on trial.
        case leaveOnTrial
        /// End the push, because all images are on the device, and not all of them run. This step occurs only with
        /// `UpdateOptions.Ending.uploadOnly`.
        case leaveHeld
        /// End the push, because nothing is left to do.
        case finish
        /// Wait for the requested restart, or request it again.
        case awaitRestart
        /// Fail with this error, because the update has failed, or because another update is in progress on the device.
        case blocked(UpdateError)

        /// True if the device must still boot the image: it does not run it, neither on trial nor confirmed.
        var needsBoot: Bool {
            switch self {
            case .upload, .mark, .restart, .awaitRestart, .leaveHeld: true
            case .confirm, .leaveOnTrial, .finish, .blocked: false
            }
        }
        /// True if the step changes the device.
        var changesDevice: Bool {
            switch self {
            case .upload, .mark, .restart, .confirm: true
            case .leaveOnTrial, .leaveHeld, .finish, .awaitRestart, .blocked: false
            }
        }
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
        /// The bootloader has taken the image, and the device does not list the running image with this image number. So it is not known
        /// whether the image runs. An example is the image for the network processor of an nRF5340.
        case unlisted
        /// The device does not list the running image with this image number, and the other images of the push run. Nothing shows that
        /// the device has this image, so it is sent again.
        case unproven
    }

    let push: SMPPush
    let list: SMPImageList
    /// True after a restart request of this session.
    let wasRestarted: Bool

    private var images: [SMPImage] { push.images }
    private var options: UpdateOptions { push.options }

    /// The next step of the push.
    var step: Step {
        // After a restart and during a trial, all images run. If not, the restart is still to come, or the update has failed.
        if wasRestarted || push.sawTrial, let image = firstNotRunning {
            return somePending ? .awaitRestart : .blocked(rolledBack(image))
        }
        let step = nextStep
        if options.onlyConfirms, step.needsBoot {
            return .blocked(UpdateError(.notInTrial, "the device does not run the image on trial"))
        }
        return step
    }

    /// The next step before a restart, or of an update that runs.
    private var nextStep: Step {
        let states = images.map { ($0, state(of: $0)) }
        func first(_ state: ImageState) -> SMPImage? { states.first { $0.1 == state }?.0 }
        if let absent = first(.absent) { return blocker.map { .blocked($0) } ?? .upload(absent) }
        // A device refuses an upload during a trial, so the trial is confirmed first.
        if !runOnTrial, let unproven = first(.unproven) { return blocker.map { .blocked($0) } ?? .upload(unproven) }
        if options.ending == .uploadOnly, runOnTrial { return .leaveOnTrial }
        if options.ending == .uploadOnly { return allRun ? .finish : .leaveHeld }
        // Image 0 is marked last. If it is marked first, the MCUboot of an nRF5340 does not install the image of the network processor.
        let held = states.filter { $0.1 == .held }.map(\.0).max { $0.number < $1.number }
        if let held, let digest = digest(of: held) {
            return blocker.map { .blocked($0) } ?? .mark(held, digest: digest)
        }
        if first(.pending) != nil { return .restart }
        guard let trial = first(.onTrial) else {
            // All images run and are confirmed. If another image is marked for the next boot, that image would replace one of them. In
            // this case, `blocker` has the error.
            return blocker.map { .blocked($0) } ?? .finish
        }
        return options.ending == .trial ? .leaveOnTrial : .confirm(trial, digest: list.running(trial.number)?.digest)
    }

    /// The number of image bytes that the push has to send.
    var missingBytes: Int {
        images.reduce(0) { sum, image in
            [.absent, .unproven].contains(state(of: image)) ? sum + image.bytes.count : sum
        }
    }

    /// The first image that does not run; nil if all images run, confirmed or on trial. An image that the device never lists counts as
    /// running.
    private var firstNotRunning: SMPImage? {
        images.first { ![.onTrial, .running, .unlisted, .unproven].contains(state(of: $0)) }
    }
    var allRun: Bool { firstNotRunning == nil }
    /// True if all images run, and at least one is on trial.
    var runOnTrial: Bool { allRun && images.contains { state(of: $0) == .onTrial } }
    /// True if at least one image is marked for the next boot and does not run yet.
    private var somePending: Bool { !pending.isEmpty }
    /// The images that are marked for the next boot and do not run yet.
    var pending: [SMPImage] { images.filter { state(of: $0) == .pending } }
    /// The images of the push whose running image the device does not list.
    var unlisted: [SMPImage] { images.filter { [.unlisted, .unproven].contains(state(of: $0)) } }

    /// Returns the state of an image on the device.
    func state(of image: SMPImage) -> ImageState {
        listedState(of: image) ?? unlistedState(of: image)
    }

    /// Returns the state of an image that the image list has; nil if the list does not have the image.
    private func listedState(of image: SMPImage) -> ImageState? {
        guard let digest = digest(of: image) else { return nil }
        if let running = list.running(image.number), let theirs = running.digest,
            theirs == digest || theirs == image.unpackedDigest
        {
            return running.confirmed == true ? .running : .onTrial
        }
        let others = list.others(image.number)
        if let held = others.first(where: { $0.digest == digest }) { return held.pending == true ? .pending : .held }
        return isListedByVersion(image, others) ? .held : nil
    }

    /// Returns whether the list has a completely received image, if the device reports no digests.
    ///
    /// This is the list of MCUboot's serial recovery without `MCUBOOT_SERIAL_IMG_GRP_HASH`. It has only images that the bootloader has
    /// validated (`boot_serial.c`), so the version is enough to recognize the received image.
    private func isListedByVersion(_ image: SMPImage, _ others: [SMPImageList.Entry]) -> Bool {
        push[image].isComplete && list.entries.allSatisfy { $0.digest == nil }
            && others.contains { image.hasVersion($0.version) }
    }

    /// Returns the state of an image that the image list does not have.
    ///
    /// The image is `unlisted` or `unproven` only if the list has no image with this number, and shows which images run. There are two proofs
    /// that the bootloader has taken it. First: this session saw the image marked for boot. Second: the other images of the push run, and
    /// `UpdateOptions.deliveredImages` has the image. The second proof does not count with `UpdateOptions.Resume.never`, so the user can
    /// send the image again.
    private func unlistedState(of image: SMPImage) -> ImageState {
        guard !list.entries.contains(where: { $0.image == image.number }),
            list.entries.contains(where: { $0.active == true })
        else { return .absent }
        if push[image].wasMarked { return .unlisted }
        let others = images.filter { other in list.entries.contains { $0.image == other.number } }
        guard options.resume != .never, image.number > 0, others.contains(where: { $0.number == 0 }),
            others.allSatisfy({ [.onTrial, .running].contains(listedState(of: $0)) })
        else { return .absent }
        return options.deliveredImages[image.number] == image.fileDigest ? .unlisted : .unproven
    }

    /// Returns the digest that identifies an image in the device's image list while the image does not run; nil if the image has no digest
    /// of the right length.
    private func digest(of image: SMPImage) -> [UInt8]? { image.digest(ofLength: list.digestLength(image.number)) }

    /// Returns the error for an image of the push that does not run after its restart, or that ran and does not run any more.
    ///
    /// No image is marked for boot. So the device has rolled back, or its bootloader has refused the image.
    private func rolledBack(_ image: SMPImage) -> UpdateError {
        UpdateError(
            .rolledBack,
            difference(of: image, from: list.running(image.number))
                + ": its bootloader refused the image (wrong signing key or damaged bytes), or the trial ended")
    }

    /// Returns a description of the difference between an image and the running image with the same image number. If a push has several
    /// images, the description names the image number. If both images have the same version, it names their digests.
    private func difference(of image: SMPImage, from running: SMPImageList.Entry?) -> String {
        let subject = images.count > 1 ? "image \(image.number): " : ""
        guard let running else { return "\(subject)the device has not installed version \(image.version)" }
        guard image.hasVersion(running.version) else {
            return "\(subject)the device runs version \(running.version), not \(image.version)"
        }
        func name(_ digest: [UInt8]?) -> String { digest.map { Hex.encode(Array($0.prefix(8))) + "…" } ?? "unknown" }
        return
            "\(subject)the device runs another image of version \(running.version), with the digest \(name(running.digest)), not "
            + name(digest(of: image))
    }

    /// Returns the error for another image that is marked for the next boot.
    ///
    /// - Parameter addition: text at the end of the message.
    static func marked(_ entry: SMPImageList.Entry, _ addition: String = "") -> UpdateError {
        let isPermanent = entry.permanent == true
        let kind = isPermanent ? ", without a trial" : ""
        return UpdateError(
            .inTrial, "version \(entry.version) in slot \(entry.slot) is marked for the next boot\(kind)\(addition)",
            isMarkedForBoot: true, isMarkedPermanently: isPermanent)
    }

    /// The error if another update is in progress on the device: with an image number of this push, another image is on trial or marked for
    /// boot. Nil if no other update is in progress.
    ///
    /// During another update, the device would refuse an upload or a mark.
    private var blocker: UpdateError? {
        for image in images {
            if let running = list.running(image.number), running.confirmed == false, listedState(of: image) != .onTrial
            {
                return UpdateError(.inTrial, "version \(running.version) runs and is not confirmed")
            }
            if let other = list.others(image.number).first(where: {
                $0.pending == true && $0.digest != digest(of: image)
            }) {
                return Self.marked(other)
            }
        }
        return nil
    }
}
