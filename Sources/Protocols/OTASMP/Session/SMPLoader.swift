import OTAUpdate

/// What a push has done with the firmware loader of a device with one slot.
///
/// Such a device has two programs: the application in slot 0, and the firmware loader, which replaces the image in slot 0 while the
/// application does not run. Both report the bootloader mode `SMPBootloaderMode.firmwareLoader`. Only the loader has an image list.
struct SMPLoader {
    enum Phase {
        /// The session has not changed the device.
        case none
        /// The session names the loader, and restarts the device into it.
        case entering
        /// The loader receives the image.
        case loading
        /// The loader has the image, and the device restarts into it.
        case leaving
        /// The update has failed with this error before the loader accepted a byte. The device restarts into its application.
        case abandoning(UpdateError)
    }
    /// The addition to the error about fields that a loader does not report.
    static let uncheckedNote =
        "; the device is in its firmware loader, which does not report what its application reports"
    /// The name of the setting for the loader's advertised name (sdk-nrf-bm, `ble_rmem.c`).
    static let nameSetting = "fw_loader/adv_name"
    /// The maximum number of restarts into the loader. More than one is necessary if the device leaves its loader during the update.
    static let mostEntries = 3
    /// The maximum number of additional image lists after an upload. The loader writes the last bytes after its last answer
    /// (`bm_img_mgmt.c`), so the first list may lack the image.
    static let mostLists = 3
    /// The number of searches in a row without the device that show that the loader does not run any more.
    static let leastMisses = 3

    var phase = Phase.none
    /// The number of restarts into the loader in this session. With 0, the loader already ran when the session began.
    var entries = 0
    /// True after the loader has answered at another address than that of the device.
    var hasOtherAddress = false
    /// True after the loader has acknowledged the restart request after the upload.
    var isAcknowledged = false
    /// The version that the application reported before the restart into the loader; nil if it reported none.
    var previousVersion: String?
    /// This version without a build number; nil if it is not a version of three or four numbers.
    var previousRelease: SMPVersion?
    /// True if this version was the version of the image in slot 0. Only then the version that the new application reports is evidence,
    /// because firmware can report a version of its own.
    var reportsImageVersion = false
    /// The number of additional image lists since the upload.
    var lists = 0
    /// The number of links to the device's address, since the upload, whose program does not show that its device has a loader.
    var linksToOtherProgram = 0

    /// True after the session has begun to change the device.
    var isUnderWay: Bool { if case .none = phase { false } else { true } }
}
