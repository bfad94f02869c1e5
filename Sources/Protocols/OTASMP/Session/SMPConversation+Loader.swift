import OTAFirmware
import OTASigning
package import OTAUpdate

/// A device with one slot: the push through its firmware loader (``SMPLoader``), and the answers to the other tasks.
extension SMPConversation {
    private static let pauseBeforeList = Duration.seconds(1)

    private static let notTheDevice = UpdateError(
        .noSuchDevice,
        "the device does not appear, and the device with the name of its firmware loader is not a firmware loader")

    /// Starts the next step of the task. The link has an image list if the firmware loader answers, and the refusal of the list if the
    /// application answers.
    mutating func beginWithLoader() {
        if link.list == nil {
            // The application has the address of the device, and only the loader can have another one.
            guard !shared.link.hasOtherAddress else { return leaveOtherDevice() }
            isDeviceReached = true
            guard device.info != nil else { return ask(.deviceInfo) }
        } else if shared.link.hasOtherAddress {
            loader.hasOtherAddress = true
        } else if loader.hasOtherAddress {
            // The loader has another address, so a loader at the address of the device belongs to another device.
            return leaveOtherDevice()
        }
        switch task {
        case .push: if let list = link.list { loaderAnswers(list) } else { applicationAnswers() }
        case .status: finish(.done, describeLoader())
        case .restart: if restart == .none { restartOnly() } else { finish(.done, describeLoader()) }
        case .confirm: fail(UpdateError(.notInTrial, "the device has one slot, so it has no trial"))
        case .discard:
            fail(
                UpdateError(
                    .unsupportedDevice,
                    "the device has one slot: a partial upload is in the place of its application, and only the next push replaces it"
                ))
        case .identify: break
        }
    }

    /// Leaves a device that is not the expected program of the device. The conversation changes nothing on it: it can be another device.
    mutating func leaveOtherDevice() {
        guard loader.isUnderWay else { return fail(Self.notTheDevice) }
        breakLink(LinkError(.lost, "neither the application nor the firmware loader of the device answers"))
    }

    /// Handles a link without SMP.
    mutating func missesSMP() {
        guard loader.isUnderWay else {
            return fail(UpdateError(.unsupportedDevice, "the device does not offer SMP, MCUmgr's protocol"))
        }
        meetsOtherProgram("does not offer SMP")
    }

    /// Handles a link to a program that does not show that its device has a firmware loader. It can be another device, or a program whose
    /// attribute table is not read again yet. After the update, a second such link at the address of the device shows the new application.
    ///
    /// - Parameter lack: what the program does not do.
    mutating func meetsOtherProgram(_ lack: String) {
        guard case .leaving = loader.phase, loader.isAcknowledged, !shared.link.hasOtherAddress else {
            return leaveOtherDevice()
        }
        loader.linksToOtherProgram += 1
        guard loader.linksToOtherProgram > 1 else { return leaveOtherDevice() }
        report(.note("the new application \(lack)"))
        finish(.returned, describeLoader(hasLeft: true))
    }

    /// Returns the status of a device with one slot. The application has no image list, and the flags in the loader's list do not show
    /// which image runs.
    func describeLoader(hasLeft: Bool = false) -> DeviceDescription {
        let list = hasLeft ? nil : link.list
        var description = DeviceDescription(
            product: device.hardware ?? device.info?.softwareType, state: list == nil ? .unknown : .loader,
            runningVersion: "")
        if list == nil, !hasLeft, let running = device.info?.version {
            (description.state, description.runningVersion) = (.idle, running)
            if let previous = loader.previousVersion, previous != running { description.previousVersion = previous }
        }
        description.serial = device.info?.serial
        description.hardware = device.info?.revision.map(Int.init)
        description.slots = (list?.entries ?? []).map { entry in
            var slot = DeviceDescription.ImageSlot(entry)
            (slot.isActive, slot.isConfirmed) = (nil, nil)
            return slot
        }
        if !hasLeft {
            description.packetLength = device.knownPacketLength(valueLength: valueLength, on: shared.link)
        }
        return description
    }

    // MARK: The application answers

    private mutating func applicationAnswers() {
        switch loader.phase {
        case .none: if isReadyForLoader() { enterLoader() }
        case .loading: enterLoader()
        case .entering:
            if restart == .none { return nameLoader() }
            // An application may clear the name of its loader when it boots, so the name is set again.
            if mayRepeatRestart { return nameLoader() }
            guard !hasRestartFailed else {
                return fail(
                    UpdateError(
                        .unsupportedDevice,
                        "the application answers again: the device does not restart into its firmware loader on request"
                    ))
            }
            // The features of this program are not those of the loader.
            device.forgetProgram()
            reconnect(.afterRestart(reportsPhase: false))
        case .leaving: returned()
        case .abandoning(let error): fail(error)
        }
    }

    /// Makes all checks that are possible with the application, before the device goes out of service.
    ///
    /// - Returns: true if the device may restart into its loader; false if the conversation waits for an answer or has ended.
    private mutating func isReadyForLoader() -> Bool {
        guard isLoaderPush(replacing: nil), let push else { return false }
        var preflight = SMPPreflight(
            push: push, device: device, list: SMPImageList([]), valueLength: valueLength)
        // The buffers of the application are not the buffers of the loader.
        preflight.checksPackets = false
        do throws(UpdateError) {
            for remark in try preflight.check() { report(remark) }
        } catch {
            fail(error)
            return false
        }
        guard shared.link.preservesMessageBoundaries || shared.link.programName != nil else {
            fail(
                UpdateError(
                    .unsupportedDevice,
                    "the device has one slot, and this link cannot be moved to its firmware loader: the device has a private address, or "
                        + "the push requires a bond"))
            return false
        }
        return !endsDryRun()
    }

    /// Ends a push, because the application answers after the update. Only its version proves that it is the image of the push, and only if
    /// the old application reported the version of its image.
    private mutating func returned() {
        guard loader.reportsImageVersion, let image = push?.images.first, let running = device.info?.plainVersion else {
            var description = describeLoader()
            description.state = .unknown
            return finish(.returned, description)
        }
        guard image.hasRelease(running) else {
            let code: UpdateError.Code = loader.isAcknowledged ? .imageNotRunning : .didNotReturn
            return fail(UpdateError(code, "the device runs version \(running), not \(image.version)"))
        }
        report(.confirmed(version: running))
        finish(.confirmed, describeLoader())
    }

    /// Checks the push, and compares the bundle's fields with the device.
    private mutating func isLoaderPush(replacing previous: SMPImageList.Entry?) -> Bool {
        beginChecks()
        guard let push else { return false }
        if push.options.onlyConfirms {
            fail(UpdateError(.notInTrial, "the device has one slot, so it has no trial"))
            return false
        }
        guard push.images.count == 1, push.images[0].number == 0 else {
            fail(UpdateError(.unsupportedDevice, "the device has one slot, for the image 0 only"))
            return false
        }
        return isForTarget(changesNothing: false) { _ in previous }
    }

    private mutating func endsDryRun() -> Bool {
        guard let push, push.options.isDryRun else { return false }
        let plan = UpdatePlan(
            resumeFrom: push.options.resume == .never ? 0 : nil, bytes: push.images.reduce(0) { $0 + $1.bytes.count })
        finish(.wouldUpdate(plan), describeLoader())
        return true
    }

    private mutating func enterLoader() {
        guard loader.entries < SMPLoader.mostEntries else {
            return fail(UpdateError(.protocolViolation, "the device leaves its firmware loader during each update"))
        }
        enter(.sending)
        if loader.entries == 0 {
            report(.note("the device has one slot: its application does not run until the update ends"))
        }
        loader.entries += 1
        if loader.entries == 1 {
            loader.previousVersion = device.info?.version
            loader.previousRelease = device.info?.plainVersion.flatMap { SMPVersion($0) }
        }
        loader.phase = .entering
        push?.hasActed = true
        endRestart()
        nameLoader()
    }

    /// Names the loader, if the transport finds a device by its name.
    private mutating func nameLoader() {
        guard let name = shared.link.programName else { return restartIntoLoader() }
        ask(.writeSetting(name: SMPLoader.nameSetting, value: Array(name.utf8)))
    }

    /// Handles the refusal of the loader's name. Without the name, nothing would show the loader.
    mutating func loaderNotNamed(_ error: SMPError) {
        fail(
            UpdateError(
                .unsupportedDevice,
                "the device refused a name for its firmware loader, \(error.meaning): otaflash could not find the loader after the restart"
            ))
    }

    /// Requests the restart into the loader.
    mutating func restartIntoLoader() {
        lookForPrograms()
        requestRestart(.resetToLoader)
    }

    /// Makes the next links go to the program that runs, the application or the loader. Only its answers show which one it is.
    private mutating func lookForPrograms() {
        if shared.link.programName != nil { shared.target = .program }
    }

    /// Records a restart of the device, after which another program can answer.
    mutating func restartedWithLoader(isAnswered: Bool) {
        device.forgetProgram()
        link.listRefusal = nil
        if case .leaving = loader.phase, isAnswered { loader.isAcknowledged = true }
    }

    private mutating func endRestart() {
        restart = .none
        restarts = 0
        shared.restartDeadline = nil
    }

    // MARK: The loader answers

    private mutating func loaderAnswers(_ list: SMPImageList) {
        switch loader.phase {
        case .none, .entering:
            isDeviceReached = true
            progressed()
            endRestart()
            compareVersions(list)
            loader.phase = .loading
            lookForPrograms()
            if let error = unmetRequirement(list) { return fail(error) }
            load(list)
        case .loading: load(list)
        case .leaving: didNotLeave()
        case .abandoning(let error):
            if mayRepeatRestart { return requestRestart(.reset) }
            if hasRestartFailed { return fail(error) }
            reconnect(.afterRestart(reportsPhase: false))
        }
    }

    /// Compares the version that the old application reported with the version of its image, before the first upload.
    private mutating func compareVersions(_ list: SMPImageList) {
        guard loader.entries == 1, let before = loader.previousRelease, let entry = list.application.entries.first,
            let listed = SMPVersion(entry.version)
        else { return }
        loader.reportsImageVersion = listed.isSameRelease(as: before)
    }

    /// Returns the error if the old image is below the required version of the bundle. Before the restart, only a version was known that the
    /// application reports of itself; nil if this was the version of the image.
    private func unmetRequirement(_ list: SMPImageList) -> UpdateError? {
        guard loader.entries == 1, !loader.reportsImageVersion, let entry = list.application.entries.first,
            let previous = SMPVersion(entry.version), let image = push?.images.first,
            let requires = image.verified.manifest?.requires, !isImage(image, entry), !previous.satisfies(requires)
        else { return nil }
        return UpdateError(
            .requiresNewer,
            "the bundle requires version \(requires) to run first, the device has \(entry.version)")
    }

    /// Continues the upload, or restarts the device if the loader has the whole image.
    ///
    /// The list alone never shows that the loader has the image: an interrupted upload can leave the header and the digest of an image
    /// whose other bytes are of another image. So the image is always sent in this session, or resumed.
    private mutating func load(_ list: SMPImageList) {
        guard let image = push?.images.first else { return }
        let application = list.application
        let entry = application.entries.first
        let isListed = entry.map { isImage(image, $0) } ?? false
        guard isLoaderPush(replacing: isListed ? nil : entry), let push, let ledger = shared.ledger else { return }
        // The answer to the last chunk was lost.
        if push.underWay != nil, !push[image].isComplete, isListed, ledger.sentOffset >= image.bytes.count,
            push.digestMismatches == 0
        {
            self.push?[image].isUncertain = true
            arrived()
        }
        guard self.push?[image].isComplete == true else {
            if isReady(for: application), !endsDryRun() { begin(image) }
            return
        }
        if isListed { return leaveLoader() }
        guard loader.lists < SMPLoader.mostLists else {
            loader.lists = 0
            // Nordic's loader keeps up to 15 unwritten bytes of an interrupted upload, and writes them before the bytes of the next upload
            // (`bm_img_mgmt.c`, `ring_buf`). So one repetition can repair the image.
            self.push?[image].isUncertain = true
            return notListed(image)
        }
        loader.lists += 1
        link.list = nil
        pause(Self.pauseBeforeList, then: .ask(SMPExchange(.imageState, busyEnd: shared.busyEnd)))
    }

    private func isImage(_ image: SMPImage, _ entry: SMPImageList.Entry) -> Bool {
        guard let digest = entry.digest else { return image.hasVersion(entry.version) }
        return image.digest(ofLength: digest.count) == digest
    }

    /// Restarts the device into the new application. Its address can differ from the address of the loader.
    private mutating func leaveLoader() {
        enter(.marked)
        loader.phase = .leaving
        loader.isAcknowledged = false
        endRestart()
        askToRestart()
    }

    /// Handles the answer of the loader after the restart request at the end of the update.
    private mutating func didNotLeave() {
        if mayRepeatRestart { return askToRestart() }
        guard hasRestartFailed else { return reconnect(.afterRestart(reportsPhase: false)) }
        guard let image = push?.images.first else { return }
        if push?[image].isUncertain == true, push?[image].wasSentAgain == false {
            loader.phase = .loading
            endRestart()
            return notListed(image)
        }
        guard loader.isAcknowledged else {
            return fail(UpdateError(.didNotReturn, "the firmware loader answers and does not restart"))
        }
        // A refused image stays in its slot. An installer erases itself (sdk-nrf-bm, `ug_dfu.rst`).
        let isListed = link.list?.application.entries.isEmpty == false
        fail(
            UpdateError(
                .imageNotRunning,
                isListed
                    ? "the device has restarted, and its firmware loader runs again: the bootloader does not boot version "
                        + "\(image.version) (wrong signing key or damaged bytes)"
                    : "the device has restarted, and its firmware loader runs again without an application: version \(image.version) "
                        + "has erased itself, as an installer does, or its bytes are damaged"))
    }

    // MARK: The end

    /// Restarts the device into its unchanged application if the update has failed in the current call, before the loader accepted a byte.
    /// Only for a loader that this session has entered.
    mutating func leaveLoaderAfterRefusal() {
        guard loader.entries > 0, push?.wasOpened == false, runsLoader, let error = shared.takeFailure() else { return }
        loader.phase = .abandoning(error)
        report(.note("the update failed before the upload: the device restarts into its application"))
        endRestart()
        requestRestart(.reset)
    }

    /// True if the device of the link is the loader that this session has entered. A device whose mode is not known on this link can be another
    /// device.
    private var runsLoader: Bool {
        if case .loading = loader.phase { link.list != nil && device.hasFirmwareLoader } else { false }
    }

    package var stoppedApplication: UpdateError.StoppedApplication? {
        switch loader.phase {
        case .entering: restart != .none && link.listRefusal == nil ? .intact : nil
        case .loading: push?.wasOpened == true ? .overwritten : .intact
        case .none, .leaving, .abandoning: nil
        }
    }

    /// The result of a push whose device does not appear after the restart. If the push began with the loader, the application may have another
    /// address or no SMP. Then only real searches show that the loader does not run any more.
    package func resultWithoutReturn() -> Result<UpdateReport, UpdateError>? {
        switch loader.phase {
        case .abandoning(let error): return .failure(error)
        case .leaving:
            guard loader.isAcknowledged, loader.entries == 0, shared.target == .program,
                shared.misses >= SMPLoader.leastMisses
            else { return nil }
            return .success(finalReport(.returned, describeLoader(hasLeft: true)))
        case .none, .entering, .loading: return nil
        }
    }
}
