/// The image list of a device: the images in the device's slots, with MCUboot's flags.
package struct SMPImageList: Sendable, Equatable {
    /// An image in a slot. A flag is nil if the device does not report it.
    package struct Entry: Sendable, Equatable {
        /// The image number of MCUboot; 0 on a device with one image.
        package var image = 0
        /// The slot, 0 or 1. Each image number has two slots of its own.
        package var slot = 0
        /// The version in the device's format: `1.2.3`, or `1.2.3.4` with a build number.
        package var version = ""
        /// The digest in the image's TLVs; nil if the device does not report it. This digest is not the digest of the image file.
        package var digest: [UInt8]?
        /// True if the bootloader can boot the image.
        package var bootable: Bool?
        /// True if the image is marked for the next boot.
        package var pending: Bool?
        /// True if the image is confirmed. A running image that is not confirmed is on trial.
        package var confirmed: Bool?
        /// True if the image runs.
        package var active: Bool?
        /// True if the image is marked as permanent for the next boot. This boot is not a trial.
        package var permanent: Bool?

        package init() {}
    }
    /// The maximum number of entries. The limit bounds the work that a hostile device can cause. A real device has few image numbers, and
    /// two slots for each image number.
    private static let most = 32

    package var entries: [Entry]

    package init(_ entries: [Entry]) { self.entries = entries }

    /// Parses the fields of an answer that has the image list.
    ///
    /// - Throws: ``SMPFrameError`` if the list is missing or too long, or if an entry is malformed.
    package init(_ fields: [String: CBORValue]) throws(SMPFrameError) {
        guard let images = fields["images"]?.array, images.count <= Self.most else {
            throw SMPFrameError(context: "malformed image list from the device")
        }
        let absent = Self.absentFlag(images)
        var entries: [Entry] = []
        for image in images { entries.append(try Entry(image, absent: absent)) }
        self.init(entries)
    }

    /// Returns the meaning of a flag that is absent from an entry of this list: false, or nil for "not reported".
    ///
    /// Zephyr's server normally sends every flag. With `CONFIG_MCUMGR_GRP_IMG_FRUGAL_LIST`, and in MCUboot's serial recovery with
    /// `MCUBOOT_SERIAL_IMG_GRP_IMAGE_STATE`, a server sends only the flags that are true. Without that option, MCUboot's serial recovery
    /// (`boot_serial.c`) sends no flag at all. So an absent flag means false only if the list has flags, and all of them are true.
    private static func absentFlag(_ images: [CBORValue]) -> Bool? {
        let flags = images.flatMap { image in Entry.flags.compactMap { image.map?[$0]?.bool } }
        return !flags.isEmpty && flags.allSatisfy { $0 } ? false : nil
    }

    /// False if the list has images, and the device does not report which of them run.
    var reportsRunning: Bool { entries.isEmpty || entries.contains { $0.active != nil } }

    /// Returns the running image with this image number; nil if no image with this number runs, or if the device does not report it.
    package func running(_ number: Int) -> Entry? { entries.first { $0.image == number && $0.active == true } }

    /// The application in the list of a firmware loader. The list contains only the image in slot 0, as if it ran.
    ///
    /// A firmware loader lists two entries or one: the application in slot 0, and possibly itself in slot 1. The flags do not show which of
    /// them runs (sdk-nrf-bm, `img_mgmt_state.c`).
    var application: SMPImageList {
        var list = SMPImageList(entries.filter { $0.image == 0 && $0.slot == 0 })
        for index in list.entries.indices { list.entries[index].active = true }
        return list
    }

    /// The digests of the running images, by image number. A digest is nil if the device does not report it.
    var runningDigests: [Int: [UInt8]?] {
        Dictionary(entries.filter { $0.active == true }.map { ($0.image, $0.digest) }) { first, _ in first }
    }

    /// Returns the images with this image number, except the running image. If the device does not report the running image, the result
    /// also contains it.
    package func others(_ number: Int) -> [Entry] { entries.filter { $0.image == number && $0.active != true } }

    /// The length in bytes of the digests in this list for an image number.
    ///
    /// A device uses the same digest length for all images. If the list has no digest, the length is the usual one.
    func digestLength(_ number: Int) -> Int {
        let digests = [running(number)?.digest] + entries.map(\.digest)
        return digests.compactMap { $0?.count }.first ?? SMPImage.usualDigestLength
    }

    /// Returns the slot to erase: the slot without the running image, or slot 1 if no image with this number runs. Returns nil if images
    /// run in both slots.
    ///
    /// The result is a slot number for an erase request. In an erase request, Zephyr counts the slots across all images: image 0 has the
    /// slots 0 and 1, and image 1 has the slots 2 and 3.
    ///
    /// - Parameter number: the image number.
    func slotToErase(_ number: Int) -> Int? {
        let running = entries.filter { $0.image == number && $0.active == true }.map(\.slot)
        return [1, 0].first { !running.contains($0) }.map { 2 * number + $0 }
    }
}

extension SMPImageList.Entry {
    /// The names of the flags in an entry.
    fileprivate static let flags = ["bootable", "pending", "confirmed", "active", "permanent"]

    /// Parses an entry of the image list.
    ///
    /// - Parameter absent: the value of an absent flag.
    fileprivate init(_ value: CBORValue, absent: Bool?) throws(SMPFrameError) {
        guard let fields = value.map, let slot = fields["slot"]?.integer, let version = fields["version"]?.shortText
        else {
            throw SMPFrameError(context: "an image in the device's list has no slot or no version")
        }
        self.slot = slot
        self.version = version
        image = fields["image"]?.integer ?? 0
        digest = fields["hash"]?.bytes
        bootable = fields["bootable"]?.bool ?? absent
        pending = fields["pending"]?.bool ?? absent
        confirmed = fields["confirmed"]?.bool ?? absent
        active = fields["active"]?.bool ?? absent
        permanent = fields["permanent"]?.bool ?? absent
    }
}

/// The slot list of a device: the sizes of its slots. Older servers do not report this list.
package struct SMPSlotList: Sendable, Equatable {
    /// A slot of the device.
    package struct Slot: Sendable, Equatable {
        /// The image number of MCUboot; 0 on a device with one image.
        package var image: Int
        /// The slot, 0 or 1. Each image number has two slots of its own.
        package var slot: Int
        /// The size of the slot in bytes.
        package var size: Int

        package init(image: Int, slot: Int, size: Int) {
            self.image = image
            self.slot = slot
            self.size = size
        }
    }
    package var slots: [Slot] = []
    /// The maximum size of an image in bytes, by image number. The space that the bootloader's trailer needs is already subtracted.
    ///
    /// An image number has no entry if the device does not report this maximum.
    package var largestImages: [Int: Int] = [:]

    /// Parses the fields of an answer that has the slot list. Skips a slot without a size or with a size of 0, because the device
    /// could not open this slot.
    ///
    /// - Throws: ``SMPFrameError`` if the slot list is missing.
    package init(_ fields: [String: CBORValue]) throws(SMPFrameError) {
        guard let images = fields["images"]?.array else {
            throw SMPFrameError(context: "malformed slot list from the device")
        }
        for value in images {
            guard let image = value.map, let slots = image["slots"]?.array else { continue }
            let number = image["image"]?.integer ?? 0
            if let largest = image["max_image_size"]?.integer, largest > 0 { largestImages[number] = largest }
            for slot in slots.compactMap(\.map) {
                guard let index = slot["slot"]?.integer, let size = slot["size"]?.integer, size > 0 else { continue }
                self.slots.append(Slot(image: number, slot: index, size: size))
            }
        }
    }

    /// Returns the maximum size in bytes of an image for the slot without the running image; nil if the device reports neither this maximum
    /// nor the slot's size. The slot's size includes the bootloader's trailer.
    ///
    /// - Parameters:
    ///   - number: the image number.
    ///   - running: the slot with the running image; nil if no image with this number runs.
    package func largestImage(_ number: Int, running: Int?) -> Int? {
        largestImages[number] ?? slots.filter { $0.image == number && $0.slot != running }.map(\.size).max()
    }
}
