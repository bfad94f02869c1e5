/// How large a device's slots are. Only newer servers tell it.
package struct SMPSlotList: Sendable, Equatable {
    package struct Slot: Sendable, Equatable {
        package var image: Int
        package var slot: Int
        /// In bytes.
        package var size: Int

        package init(image: Int, slot: Int, size: Int) {
            self.image = image
            self.slot = slot
            self.size = size
        }
    }
    package var slots: [Slot] = []
    /// The largest image in bytes, by image number, where the device tells it: boot trailer deducted.
    package var largestImages: [Int: Int] = [:]

    /// A slot that cannot be opened has an error in place of a size.
    package init(_ fields: [String: CBORValue]) throws(SMPFrameError) {
        guard let images = fields["images"]?.array else {
            throw SMPFrameError(context: "the device's list of slots is none")
        }
        for value in images {
            guard let image = value.map, let slots = image["slots"]?.array else { continue }
            let number = image["image"]?.integer ?? 0
            if let largest = image["max_image_size"]?.integer { largestImages[number] = largest }
            for slot in slots.compactMap(\.map) {
                guard let index = slot["slot"]?.integer, let size = slot["size"]?.integer else { continue }
                self.slots.append(Slot(image: number, slot: index, size: size))
            }
        }
    }

    /// The most bytes of an image that the slot takes which `running` leaves free.
    package func largestImage(_ number: Int, running: Int?) -> Int? {
        largestImages[number] ?? slots.filter { $0.image == number && $0.slot != running }.map(\.size).max()
    }
}
